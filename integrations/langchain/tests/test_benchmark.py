"""Does the benchmark of an agent's context policies run, and say what it is about?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LANGCHAIN = ("no_middleware", "summarization", "context_editing", "trim_messages")
KVAGENT = ("kvagent", "kvagent_unshortened", "chat_openai")


def test_an_agent_costs_the_least_with_kvagent(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    out = tmp_path / "report.json"
    program = [sys.executable, str(ROOT / "benchmarks" / "langchain_policies.py")]
    options = ["--tiny", "--threads", "1", "--turns", "10", "--json", str(out)]
    done = subprocess.run([*program, *options], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    report = json.loads(out.read_text())
    assert report.keys() == {
        *("floor_tokens", "window", "turns", "short"),
        *LANGCHAIN,
        *KVAGENT,
    }
    prefilled = {name: report[name]["prefilled_tokens"] for name in (*LANGCHAIN, *KVAGENT)}
    assert prefilled["kvagent"] <= 1.05 * report["floor_tokens"]
    for name in KVAGENT:
        assert report[name]["refused_in_turn"] is None
        assert report[name]["longest_prompt_tokens"] <= report["window"]
    # Without a policy the conversation does not fit: who came to its end had to act.
    assert report["no_middleware"]["refused_in_turn"] is not None
    for name in LANGCHAIN:
        if report[name]["refused_in_turn"] is None:
            assert prefilled["kvagent"] < prefilled[name]
            assert report["kvagent"]["breaks"] < report[name]["breaks"]

    # Where all of it fits, there is nothing to do and nothing to pay.
    short = report["short"]
    assert short["kvagent"]["prefilled_tokens"] <= short["no_middleware"]["prefilled_tokens"]
    assert short["kvagent"]["breaks"] == 0
