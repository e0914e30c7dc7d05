"""Does a model get its answer within the turn, and does its agent notice nothing of it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent import Bypassed, Engine, Policy, PrefixBroken, Recall
from kvagent.events import TurnFinished
from kvagent.fingerprint import same_render
from kvagent.recall import RECALL
from tests.recall.asking import FINAL, LONG, TOOLS, Model, asks, history, recalling, reserialised
from tests.scripted import Scripted
from tests.wire import Message, call, kept, result, say


def test_the_agent_sees_only_the_last_reply() -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(handle, lines="2-3"), FINAL)
    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    first, second = scripted.bodies
    assert kept(first, second)
    question, answer = second["messages"][len(first["messages"]) :]
    assert question["tool_calls"][0]["function"]["name"] == RECALL
    assert answer == result("ask-1", "\n".join(LONG.split("\n")[1:3]) + "\n")
    assert len(scripted.of(TurnFinished)) == 1
    assert not scripted.of(Bypassed)


def test_the_next_turn_holds_what_was_asked_and_told() -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(handle, query="line 77:"), FINAL)
    scripted.send(history(), model, tools=TOOLS)
    more = [*history(), FINAL, say("user", "And the next?")]
    scripted.send(more, tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert scripted.last[len(scripted.bodies[1]["messages"]) :] == more[-2:]
    assert not scripted.of(PrefixBroken)
    scripted.send([*more, say("assistant", "Good."), say("user", "Last one.")], tools=TOOLS)
    assert kept(scripted.bodies[2], scripted.bodies[3])


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    "final", [FINAL, call("call-2", "read", '{"path":"a.py",  "n":1}', "I will read it.")]
)
def test_through_a_framework_and_a_restart(durable: bool, final: Message, tmp_path: Path) -> None:
    def engine() -> Engine:
        store = tmp_path / "store.sqlite" if durable else None
        return Engine(Policy(probe=False, recall=Recall()), store=store)

    scripted = Scripted(engine())
    model = Model(lambda handle: asks(handle, lines="9-12"), final)
    assert scripted.send(history(), model, tools=TOOLS).reply == final
    if durable:
        scripted.engine = engine()
    more = [*history(), reserialised(final)]
    more += [result("call-2", "x = 1")] if "tool_calls" in final else [say("user", "And?")]
    scripted.send(more, tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert same_render(scripted.last[-2], final)


@pytest.mark.parametrize("indent", [None, 1])
def test_of_a_body_however_it_is_written(indent: int | None) -> None:
    def dump(body: Any) -> str:
        return json.dumps(body, indent=indent)

    scripted = recalling()
    model = Model(lambda handle: asks(handle, lines="2-3"), FINAL)
    options: dict[str, Any] = {"tools": TOOLS, "dump": dump, "seed": 7}
    assert scripted.send(history(), model, **options).reply == FINAL
    scripted.send([*history(), FINAL, say("user", "And?")], **options)
    assert all(kept(a, b) for a, b in zip(scripted.bodies, scripted.bodies[1:], strict=False))
    assert [body["seed"] for body in scripted.bodies] == [7, 7, 7]
    assert not scripted.of(Bypassed)


def test_with_a_clock_in_the_head() -> None:
    scripted = recalling()

    def at(second: int) -> list[Message]:
        clock = f"You help.\nCurrent time: 2026-03-02 09:00:0{second}"
        return [say("system", clock), *history()[1:]]

    model = Model(lambda handle: asks(handle, lines="2-3"), FINAL)
    scripted.send(at(1), model, tools=TOOLS, session="ticket-1")
    scripted.send([*at(2), FINAL, say("user", "And?")], tools=TOOLS, session="ticket-1")
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert not scripted.of(PrefixBroken)


# In a stream the caller has the text that came before the question.


def test_text_before_a_question_is_a_part_of_the_reply_in_a_stream() -> None:
    scripted = recalling()

    def asking(handle: str) -> Message:
        return asks(handle, content="Let me look. ", lines="4")

    scripted.send(history(), Model(asking, FINAL), tools=TOOLS, stream=True)
    had = say("assistant", "Let me look. " + FINAL["content"])
    scripted.send([*history(), had, say("user", "And?")], tools=TOOLS, stream=True)
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert scripted.last[-2] == FINAL
    assert not scripted.of(PrefixBroken)


def test_without_a_stream_the_caller_has_the_last_text_alone() -> None:
    scripted = recalling()

    def asking(handle: str) -> Message:
        return asks(handle, content="Let me look. ", lines="4")

    scripted.send(history(), Model(asking, FINAL), tools=TOOLS)
    scripted.send([*history(), FINAL, say("user", "And?")], tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])
