"""Is text that an agent moves told from text that it takes away?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import Edited
from tests.wire import Message, Wire, call, compact, kept, result, say

REMINDER = "<reminder>Mind the gap, please.</reminder>"
PLAIN = "Mind the gap between the train and the platform."
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LONG = "This is a reply that is long enough to be told from what any other server may have said."


def text(value: str) -> Message:
    return {"type": "text", "text": value}


def second(first: Message, again: Message, newest: Any) -> Wire:
    """Two turns: ``first`` comes back as ``again``, and ``newest`` is what follows."""
    wire = Wire()
    head, reply = say("system", "You help."), say("assistant", LONG)
    wire.send([head, first], reply)
    wire.send([head, again, reply, say("user", newest)], reply)
    return wire


def was_held(wire: Wire) -> bool:
    held = kept(wire.bodies[0], wire.bodies[1])
    assert held == ("text_moved" in {event.cause for event in wire.of(Edited)})
    return held


@pytest.mark.parametrize(
    ("first", "again", "newest"),
    [
        (f"Go. {PLAIN}", "Go.", f"On. {PLAIN}"),
        (f"Go. {PLAIN}", "Go.", [text("On."), text(PLAIN)]),
        ([text("Go."), text(PLAIN)], "Go.", f"On. {PLAIN}"),
        ([text("Go."), IMAGE, text(REMINDER)], [text("Go."), IMAGE], f"On. {REMINDER}"),
        (f"{REMINDER}{PLAIN}", PLAIN, f"On. {REMINDER}"),
        (REMINDER, "", f"On. {REMINDER}"),
        (f"a{REMINDER}a", "aa", f"On. {REMINDER}"),
        (
            f"Go.\n{REMINDER}\n<x>some more text</x>",
            "Go.",
            "On. <reminder>Other.</reminder><x>y</x>",
        ),
        (f"Go.\n{REMINDER}", "Go.", 'On. <reminder kind="other">Other.</reminder>'),
    ],
)
def test_text_that_stands_in_a_newer_message_was_moved(first: Any, again: Any, newest: Any) -> None:
    assert was_held(second(say("user", first), say("user", again), newest))


@pytest.mark.parametrize(
    ("first", "again", "newest"),
    [
        (f"Go. {PLAIN}", "Go.", "On."),
        (f"Go. {PLAIN}", "Go.", f"On. {PLAIN[:-9]}"),
        (f"Go. {PLAIN}", "Stop.", f"On. {PLAIN}"),
        ("Go. Again.", "Go.", "On. Again."),  # too short to be sure
        (f"Go.\n{REMINDER}", "Go.", "On. <reminders>x</reminders>"),
        (f"Go.\n{REMINDER} {PLAIN}", "Go.", f"On. {REMINDER}"),
        (f"Go. {REMINDER}", f"Go. {REMINDER} Now.", f"On. {REMINDER}"),
        ([text("Go."), IMAGE, text(REMINDER)], "Go.", f"On. {REMINDER}"),
        (f"Go.\n<p>{PLAIN}", "Go.", "On. <p>"),
    ],
)
def test_other_text_was_not(first: Any, again: Any, newest: Any) -> None:
    wire = second(say("user", first), say("user", again), newest)
    assert not was_held(wire)
    assert wire.bodies[1]["messages"][1]["content"] == again


def test_another_key_makes_another_message() -> None:
    first = say("user", f"Go. {REMINDER}", name="ada")
    assert was_held(second(first, say("user", "Go.", name="ada"), REMINDER))
    assert not was_held(second(first, say("user", "Go.", name="bob"), REMINDER))


def test_a_whole_message_is_held_only_before_what_came_after_it() -> None:
    head, reply = say("system", "You help."), say("assistant", LONG)
    question, reminder = say("user", "Go."), say("user", REMINDER)
    wire = Wire()
    wire.send([head, question, reminder], reply)
    other = say("assistant", "The agent wrote this itself, and no server ever did.")
    sent = wire.send([head, question, other, say("user", "On."), reminder], reply)
    assert reminder not in sent[:3]


def test_a_message_that_is_dropped_and_not_moved_is_gone() -> None:
    head, reply = say("system", "You help."), say("assistant", LONG)
    wire = Wire()
    wire.send([head, say("user", "Go."), say("user", REMINDER)], reply)
    sent = wire.send([head, say("user", "Go."), reply, say("user", "On.")], reply)
    assert REMINDER not in json.dumps(sent)


def test_another_conversation_never_gets_the_first_message_of_one() -> None:
    reply = say("assistant", LONG)
    wire = Wire()
    wire.send([say("user", REMINDER), say("user", "Go.")], reply)
    sent = wire.send([say("user", "Go."), say("assistant", "Else."), say("user", REMINDER)], reply)
    assert [message["content"] for message in sent] == ["Go.", "Else.", REMINDER]


def test_results_hold_moved_text_too() -> None:
    wire = Wire()
    history = [say("user", "Go."), call("call-1"), result("call-1", f"Done.\n{REMINDER}")]
    wire.send(history[:1], history[1])
    wire.send(history, call("call-2"))
    history[2] = result("call-1", "Done.")
    wire.send([*history, call("call-2"), result("call-2", f"Done.\n{REMINDER}")])
    assert kept(wire.bodies[1], wire.bodies[2])


def test_safe_mode_sends_what_the_agent_says() -> None:
    wire = Wire(mode="safe")
    reply = say("assistant", LONG)
    wire.send([say("user", f"Go. {REMINDER}")], reply)
    sent = wire.send([say("user", "Go."), reply, say("user", f"On. {REMINDER}")], reply)
    assert sent[0]["content"] == "Go."


def test_text_stays_held_turn_after_turn() -> None:
    wire = Wire()
    history: list[Message] = []
    for number in range(6):
        newest = say("user", f"Question {number}? {REMINDER}")
        reply = say("assistant", f"{number}: {LONG}")
        wire.send([*history, newest], reply, dump=json.dumps if number % 2 else compact)
        history += [say("user", f"Question {number}?"), reply]
    assert all(kept(a, b) for a, b in zip(wire.bodies, wire.bodies[1:], strict=False))
    assert sum(REMINDER in m["content"] for m in wire.bodies[-1]["messages"]) == 6


def test_long_results_that_an_agent_cuts_are_looked_at_in_time() -> None:
    """Nothing is measured: what takes squares of this length would be noticed."""
    page = "<p>" * 100_000
    assert not was_held(second(say("user", f"Go. {page}"), say("user", "Go."), "On. <p>"))
    assert not was_held(second(say("user", "a" * 200_000), say("user", "a" * 9), "On. <p>"))
