"""What stands for old turns, with a summarizer, without one, and with one that fails?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.rewrite.recordings import run
from tests.cli.rewrite.summaries import Summaries
from tests.scripted import tokens_of


def long_session(turns: int = 40) -> bytes:
    """An agent that reads one file after the other, request by request."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You read."},
        {"role": "user", "content": "Read all files, and never touch config.yaml."},
    ]
    lines = []
    for n in range(turns):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/file_{n}.py"})}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        text = "\n".join(f"value_{n}_{at} = {at * n * 31337 % 99991}" for at in range(20))
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
        lines.append(json.dumps({"model": "recorded", "messages": messages, "max_tokens": 100}))
    return "\n".join(lines).encode()


NARROW = ["--window", "4000", "--set", "clear=off", "-v", "-o", "out.jsonl"]


@pytest.fixture
def summaries() -> Iterator[Summaries]:
    with Summaries() as server:
        yield server


def prompts(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("summarizer", [[], ["--summarizer", "none"]])
def test_facts_alone_stand_for_old_turns(folder: Path, summarizer: list[str]) -> None:
    result = run("-", *NARROW, *summarizer, stdin=long_session())
    assert result.exit_code == 0
    assert "compact: " in result.stderr
    assert "summaries: " not in result.stderr
    assert "never touch config.yaml" in json.dumps(prompts(folder)[-1])
    assert max(map(tokens_of, prompts(folder))) < 4_000


def test_rules_without_a_model_write_a_narrative(folder: Path) -> None:
    run("-", *NARROW, stdin=long_session())
    alone = prompts(folder)
    result = run("-", *NARROW, "--summarizer", "extractive", stdin=long_session())
    assert result.exit_code == 0
    assert prompts(folder)[-1] != alone[-1]
    assert max(map(tokens_of, prompts(folder))) < 4_000
    first = (folder / "out.jsonl").read_bytes()
    run("-", *NARROW, "--summarizer", "extractive", stdin=long_session())
    assert (folder / "out.jsonl").read_bytes() == first


def test_a_server_writes_a_narrative(folder: Path, summaries: Summaries) -> None:
    arguments = [*NARROW, "--summarizer", summaries.url, "--api-key", "k"]
    result = run("-", *arguments, stdin=long_session())
    assert result.exit_code == 0
    assert summaries.asked
    assert {request["model"] for request in summaries.asked} == {"served"}
    assert set(summaries.keys) == {"Bearer k"}
    told = f"summaries: {100 * len(summaries.asked):,} tokens prefilled, "
    assert told + f"{50 * len(summaries.asked):,} generated" in result.stderr
    assert "The cause lay in the parser" in json.dumps(prompts(folder)[-1])
    assert max(map(tokens_of, prompts(folder))) < 4_000


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (404, {"error": "no such model"}, "status 404: "),
        (500, {"error": {"message": "overheated"}}, "status 500: "),
        (200, {"choices": []}, "no chat completion"),
        (200, ["nothing"], "no chat completion"),
        (200, {"choices": [{"message": "nothing"}]}, "no chat completion"),
    ],
)
def test_a_server_that_fails_is_told_once_and_facts_stand_alone(
    folder: Path, summaries: Summaries, status: int, answer: Any, says: str
) -> None:
    run("-", *NARROW, stdin=long_session())
    alone = prompts(folder)
    summaries.status, summaries.answer = status, answer
    result = run("-", *NARROW, "--summarizer", summaries.url, stdin=long_session())
    assert result.exit_code == 0
    assert result.stderr.count("the summarizer fails, and facts stand alone: ") == 1
    assert says in result.stderr
    assert [tokens_of(body) < 4_000 for body in prompts(folder)] == [True] * len(alone)


@pytest.mark.parametrize("content", [None, "", [{"type": "text", "text": "x"}], "I cannot do it."])
def test_a_narrative_that_does_not_hold_is_left_out(
    folder: Path, summaries: Summaries, content: Any
) -> None:
    message = {"role": "assistant", "content": content}
    summaries.answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    result = run("-", *NARROW, "--summarizer", summaries.url, stdin=long_session())
    assert result.exit_code == 0
    assert "goes out as it came" not in result.stderr
    assert "I cannot do it." not in json.dumps(prompts(folder)[-1])
    assert max(map(tokens_of, prompts(folder))) < 4_000
