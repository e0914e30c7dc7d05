"""Where does a note go, and is it told again to a conversation that goes back?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import Bypassed, Volatile
from kvagent.volatile import NOTE
from tests.stages.pin_head.heads import LONG, breaks, clock, system, user
from tests.wire import Message, Wire, call, kept, result, say


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (user("Hi."), f"Hi.\n\n{NOTE}Today is Monday."),
        (user(""), f"{NOTE}Today is Monday."),
        (user(None), f"{NOTE}Today is Monday."),
        (
            user([{"type": "image_url", "image_url": {"url": "data:,x"}}]),
            [
                {"type": "image_url", "image_url": {"url": "data:,x"}},
                {"type": "text", "text": f"{NOTE}Today is Monday."},
            ],
        ),
        (user([]), [{"type": "text", "text": f"{NOTE}Today is Monday."}]),
        (result("call-1", '{"a":1}'), f'{{"a":1}}\n\n{NOTE}Today is Monday.'),
    ],
    ids=["text", "empty", "null", "image", "no parts", "tool"],
)
def test_a_note_ends_the_newest_user_or_tool_message(message: Message, expected: Any) -> None:
    wire = Wire()
    sent = wire.send([system("Today is Monday."), message])
    assert sent[-1] == {**message, "content": expected}
    assert message["content"] != expected  # what the agent holds stays its own


def test_a_prefill_bears_no_note() -> None:
    wire = Wire()
    head = system("Today is Monday.")
    sent = wire.send([head, user("Count."), say("assistant", "One,")], say("assistant", " two."))
    assert [NOTE in message["content"] for message in sent] == [False, True, False]
    whole = say("assistant", "One, two.")
    after = wire.send([head, user("Count."), whole, user("On.")])
    assert after[:2] == sent[:2]
    assert breaks(wire) == []


def test_without_a_user_or_tool_message_the_head_goes_out_as_it_came() -> None:
    wire = Wire()
    for day in ("Monday", "Tuesday"):
        sent = wire.send(
            [system(f"Today is {day}."), say("assistant", "One,")], say("assistant", "x")
        )
        assert sent[0]["content"] == f"Today is {day}."
    assert not wire.of(Bypassed)


def test_content_that_cannot_bear_a_note_lets_the_request_out_as_it_came() -> None:
    wire = Wire()
    sent = wire.send([system("Today is Monday."), user({"odd": True})])
    assert sent == [system("Today is Monday."), user({"odd": True})]
    assert [event.reason for event in wire.of(Bypassed)] == ["content of a user message is a dict"]


def test_a_regenerated_answer_knows_the_new_time() -> None:
    wire = Wire()
    reply = say("assistant", LONG)
    wire.send([*clock("04:12"), user("One?")], reply)
    before = wire.send([*clock("04:13"), user("One?"), reply, user("Two?")], reply)
    after = wire.send([*clock("04:14"), user("One?"), reply, user("Two?")], reply)
    assert after[:3] == before[:3]
    assert after[3]["content"] == f"Two?\n\n{NOTE}Current time: 04:14"
    assert breaks(wire) == []


def test_an_agent_that_goes_back_tells_the_time_again() -> None:
    wire = Wire()
    reply = say("assistant", LONG)
    first = [*clock("04:12"), user("One?")]
    wire.send(first, reply)
    wire.send([*clock("04:13"), *first[1:], reply, user("Two?")], reply)
    sent = wire.send([*clock("04:14"), *first[1:], reply, user("Another way?")], reply)
    assert sent[:3] == wire.bodies[1]["messages"][:3]
    assert sent[3]["content"].endswith("Current time: 04:14")
    again = wire.send(
        [*clock("04:14"), *first[1:], reply, user("Another way?"), reply, user("On.")]
    )
    assert again[:4] == sent
    assert breaks(wire) == []


def test_what_stands_before_a_note_was_not_told_it() -> None:
    """Going back behind the message that bore it, the value is told again."""
    wire = Wire()
    history = [*clock("04:12"), user("Do it.")]
    wire.send(history, call("call-1"))
    history += [call("call-1"), result("call-1", "Done.")]
    wire.send([*clock("04:13"), *history[1:]], say("assistant", LONG))
    sent = wire.send([*clock("04:13"), *history[1:3], user("Never mind.")], say("assistant", LONG))
    assert sent[:3] == wire.bodies[1]["messages"][:3]
    assert sent[3]["content"] == f"Never mind.\n\n{NOTE}Current time: 04:13"


def test_a_conversation_may_begin_with_a_history() -> None:
    wire = Wire(volatile=Volatile(patterns=(r"Customer: (?P<value>\w+)",)))
    head = "Customer: ada\nSession 123e4567-e89b-12d3-a456-42661417400{}"
    for number in (1, 2):  # sessions are told apart
        wire.send([system(head.format(number)), user("Other.")], say("assistant", "ok"))
    history = [system(head.format(3)), user("One."), say("assistant", "Said."), user("Two.")]
    wire.send(history, say("assistant", "ok"))
    wire.send([*history, say("assistant", "ok"), user("Three.")], dump=json.dumps)
    assert kept(wire.bodies[2], wire.bodies[3])
    assert breaks(wire) == []
