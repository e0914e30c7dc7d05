"""Does each example do, on a real llama.cpp, what it says?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("kvagent_openai", reason="the examples need kvagent[openai]")

EXAMPLES = Path(__file__).parent.parent / "examples"


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


def cached_shares(printed: str) -> list[float]:
    """Cached by prompt tokens, turn by turn, as the server counted them."""
    counts = re.findall(r"(\d+) of (\d+)(?: prompt tokens)? cached", printed)
    return [int(cached) / int(prompt) for cached, prompt in counts]


def test_raw_client(llamacpp: str) -> None:
    """The clock ticks, and still all but the newest question and note comes from the cache."""
    counts = [
        (int(prompt), int(cached))
        for prompt, cached in re.findall(
            r"(\d+) prompt tokens, (\d+) of them", run("raw_client", llamacpp)
        )
    ]
    assert len(counts) == 3
    for (before, _), (_, cached) in pairwise(counts):
        assert cached >= before


def test_async_streaming(llamacpp: str) -> None:
    printed = run("async_streaming", llamacpp)
    assert {line.split()[0] for line in printed.splitlines()} == {"ticket-4711", "ticket-4712"}
    assert len(printed.splitlines()) == 6


def test_fan_out(llamacpp: str) -> None:
    printed = run("fan_out", llamacpp)
    assert "prefix breaks: 0" in printed
    assert all(share > 0.8 for share in cached_shares(printed)[1:])


def test_volatile_pattern(llamacpp: str) -> None:
    printed = run("volatile_pattern", llamacpp)
    assert "prefix breaks: 0" in printed
    assert all(share > 0.6 for share in cached_shares(printed)[1:])


def test_custom_stage(llamacpp: str) -> None:
    assert "hide_secrets" in run("custom_stage", llamacpp)


def test_small_window(llamacpp: str) -> None:
    printed = run("small_window", llamacpp)
    prompts = [int(count) for count in re.findall(r"(\d+) prompt tokens", printed)]
    assert len(prompts) == 10
    assert max(prompts) < 2_200
    assert "clear: " in printed


def test_every_example_is_run() -> None:
    """Here, or with LangChain in the tests of its adapter."""
    theirs = EXAMPLES.parent / "integrations" / "langchain" / "tests" / "test_examples.py"
    runs = Path(__file__).read_text() + theirs.read_text()
    named = set(re.findall(r"run\(\s*\"(\w+)\"", runs))
    assert {path.stem for path in EXAMPLES.glob("*.py")} == named
