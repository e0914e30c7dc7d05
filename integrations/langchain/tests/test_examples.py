"""Does each example for LangChain do what it says?"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .task_server import task_server

EXAMPLES = Path(__file__).parents[3] / "examples"


def run(name: str, base_url: str) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        env={**os.environ, "KVAGENT_BASE_URL": base_url},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def counts(printed: str) -> list[tuple[int, int]]:
    """Cached and prompt tokens, turn by turn, as the server counted them."""
    found = re.findall(r"(\d+) of (\d+) cached", printed)
    return [(int(cached), int(prompt)) for cached, prompt in found]


def test_langchain_agent(llamacpp: str) -> None:
    """The second process goes on in the prompt of the first, though a clock stands in front."""
    printed = run("langchain_agent", llamacpp)
    turns = counts(printed)
    assert len(turns) == 4
    assert "turn 3" in printed.partition("another:")[2]
    for (_, before), (cached, _) in itertools.pairwise(turns):
        assert cached >= before
    assert "prefix broken" not in printed
    assert "10 messages" in printed


def test_langchain_meter(llamacpp: str) -> None:
    """A clock in front keeps nearly everything out of the cache, and is told as what it is."""
    printed = run("langchain_meter", llamacpp)
    rates = re.search(r"hit rate (\d+)% with a clock in front, (\d+)% without", printed)
    assert rates is not None
    with_clock, without = map(int, rates.groups())
    assert with_clock + 20 < without
    assert "volatile_text" in printed


def reply(request: Mapping[str, Any]) -> dict[str, Any]:
    """A model that has each step that is named read by a sub-agent, and says so."""
    messages = request["messages"]
    newest = max(i for i, m in enumerate(messages) if m["role"] == "user")
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": "It was read."}
    steps = re.findall(r"\d", str(messages[newest]["content"]))
    if not steps:
        return {"role": "assistant", "content": "None of them."}
    is_main = "look after" in str(messages[0]["content"])
    calls = []
    for step in steps:
        order = {"description": f"Read step {step}.", "subagent_type": "general-purpose"}
        arguments = json.dumps(order if is_main else {"step": int(step)})
        function = {"name": "task" if is_main else "read_log", "arguments": arguments}
        calls.append({"id": f"call_{step}", "type": "function", "function": function})
    return {"role": "assistant", "content": None, "tool_calls": calls}


def test_langchain_deepagent() -> None:
    """Every agent's prompt begins with what another has sent: its tools at least."""
    pytest.importorskip("deepagents", reason="deepagents is not installed (group deepagents)")
    with task_server(reply=reply) as server:
        printed = run("langchain_deepagent", server.base_url)
    turns = counts(printed)
    assert len(turns) == len(server.bodies) == 5 + 4 * 2
    assert all(cached > 0.6 * prompt for cached, prompt in turns[1:])
    assert len(set(re.findall(r"(c[0-9a-f]{12}) turn", printed))) == 5
    assert "prefix broken" not in printed
    assert printed.endswith("> None of them.\n")


def test_every_example_for_langchain_is_run() -> None:
    named = set(re.findall(r"run\(\"(\w+)\"", Path(__file__).read_text()))
    assert {path.stem for path in EXAMPLES.glob("langchain_*.py")} == named
