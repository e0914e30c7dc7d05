"""Does a stage that fails in a small window leave the others their work?"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kvagent import DEFAULT_STAGES, Bypassed, Edited, Engine, Policy, PrefixBroken, Turn
from kvagent.chat import shown
from kvagent.policy import Compact
from kvagent.tokens import count_tokens
from tests.wire import Message, Wire, call, result, say

WINDOW = 4_000


def grown(turns: int, lines: int = 30) -> list[Message]:
    """An agent that reads a file each turn."""
    history = [say("system", "You help."), say("user", "Port it. Never touch LEGACY.txt.")]
    for turn in range(turns):
        text = "\n".join(f"{line}: value_{turn}_{line} = {line * turn}" for line in range(lines))
        made = call(f"call-{turn}", "read", {"path": f"src/part_{turn}.py"})
        history += [made, result(f"call-{turn}", text)]
    return history


def play(turns: int = 40, summarizer: Any = None) -> tuple[Wire, list[list[Message]]]:
    wire = Wire()
    policy = Policy(window=WINDOW, probe=False, compact=Compact(background=False))
    wire.engine = Engine(policy, on_event=wire.events.append, summarizer=summarizer)
    history = grown(turns)
    return wire, [wire.send(history[: 2 + 2 * at]) for at in range(turns + 1)]


def tokens(body: list[Message]) -> int:
    return sum(count_tokens(shown(message)) + 4 for message in body)


def fail(*args: object, **options: object) -> Any:
    raise RuntimeError("the prompt's own words")


@pytest.mark.parametrize(
    ("broken", "at_work"),
    [
        ("kvagent.clearing.plan", "compact"),
        ("kvagent.clearing.clearable", "compact"),
        ("kvagent.compaction.facts_of", "clear"),
        ("kvagent.compaction.record.records", "clear"),
        ("kvagent.clearing.gist", "clear"),
    ],
)
def test_what_fails_leaves_the_rest_at_work(
    monkeypatch: pytest.MonkeyPatch, broken: str, at_work: str
) -> None:
    monkeypatch.setattr(broken, fail)
    wire, bodies = play()
    assert not wire.of(Bypassed)
    assert not wire.of(PrefixBroken)
    assert at_work in {edit.stage for edit in wire.of(Edited)}
    assert max(map(tokens, bodies)) <= WINDOW


@pytest.mark.parametrize("answer", [7, [1], {"a": 1}, None, "", "blah " * 5_000, fail])
def test_a_summarizer_may_answer_whatever_it_likes(
    caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    asked: list[Any] = []

    def summarizer(request: Any) -> Any:
        asked.append(request)
        return answer() if answer is fail else answer

    with caplog.at_level(logging.INFO, logger="kvagent"):
        wire, bodies = play(summarizer=summarizer)
    assert asked
    assert not wire.of(Bypassed)
    compacted = [edit.detail for edit in wire.of(Edited) if edit.stage == "compact"]
    assert set(compacted) == {"facts alone"}
    assert max(map(tokens, bodies)) <= WINDOW
    assert "words" not in caplog.text
    if not isinstance(answer, str):
        assert "the summarizer" in caplog.text


def test_forks_after_a_batch_go_on_from_what_it_left() -> None:
    """Also where an older request than the batch is the longest one that both repeat."""
    wire, bodies = play()
    history = grown(40)
    assert len(bodies[-1]) < len(history)
    one = wire.send([*history, say("user", "Sum up.")])
    other = wire.send([*history, say("user", "What is left to do?")])
    assert one[:-1] == other[:-1]


def test_a_reply_that_is_cleared_was_not_changed_by_the_agent() -> None:
    """A framework adds calls to what was generated; kvagent then shortens the text."""

    def brief(turn: Turn) -> None:
        for fresh in turn.tail:
            if fresh.role == "assistant":
                fresh.message = {**fresh.message, "content": "[kvagent: cleared]"}

    wire = Wire()
    policy = Policy(probe=False)
    wire.engine = Engine(policy, on_event=wire.events.append, stages=(*DEFAULT_STAGES, brief))
    history = grown(0)
    wire.send(history, say("assistant", "I will look at it."))
    made = call("call-1", content="I will look at it.")
    wire.send([*history, made, result("call-1", "done")])
    assert wire.bodies[-1]["messages"][2]["content"] == "[kvagent: cleared]"
    assert not wire.of(PrefixBroken)
