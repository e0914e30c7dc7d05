"""Is every break named, with its cause, place and price, and nothing else called one?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvagent import PrefixBroken
from tests.wire import Message, Wire, call, result, say

HEAD = say("system", "You are an agent that helps with all it can. " * 8)


def user(text: Any) -> Message:
    return say("user", text)


def assistant(text: Any) -> Message:
    return say("assistant", text)


def talk(short: bool) -> list[Message]:
    """Head, and three questions with their answers."""
    messages = [HEAD]
    for number in range(3):
        answer = f"No. {number}" if short else f"The answer to question {number} is {number * 7}."
        messages += [user(f"Question {number}?"), assistant(answer)]
    return messages


def after(change: Callable[[list[Message]], list[Message]], *, short: bool = False) -> Wire:
    """What is said of a fourth request, that ``change`` makes of the history."""
    wire = Wire()
    history = talk(short)
    for end in (2, 4, 6):
        usage = {"prompt_tokens": 100 * end, "completion_tokens": 10}
        wire.send(history[:end], history[end], usage=usage)
    wire.events.clear()
    wire.send(change(history), dump=json.dumps)
    return wire


def broken(wire: Wire) -> list[tuple[str, int, int]]:
    return [(event.cause, event.index, event.lost_tokens) for event in wire.of(PrefixBroken)]


NEXT = user("Next?")

UNBROKEN: dict[str, Callable[[list[Message]], list[Message]]] = {
    "append": lambda m: [*m, NEXT],
    "retry": lambda m: m[:6],
    "back": lambda m: [*m[:4], NEXT],
    "back to the start": lambda m: [*m[:2]],
    "other newest question": lambda m: [*m[:5], NEXT],
    "answer not kept": lambda m: [*m[:6], NEXT],
    "new conversation": lambda m: [m[0], NEXT],
    "new conversation, same answer": lambda m: [m[0], NEXT, assistant("Sure."), user("?")],
    "same question in another place": lambda m: [m[0], m[3]],
}


@pytest.mark.parametrize("name", UNBROKEN)
@pytest.mark.parametrize("short", [True, False])
def test_what_is_no_break(name: str, short: bool) -> None:
    assert broken(after(UNBROKEN[name], short=short)) == []


# The prompt was 600 tokens long, and the reply to it 10; the head is about 80 of them.
BROKEN: dict[str, tuple[Callable[[list[Message]], list[Message]], str, int, range]] = {
    "window slides by one exchange": (
        lambda m: [m[0], *m[3:], NEXT],
        "messages_removed",
        1,
        range(450, 611),
    ),
    "window slides by two": (
        lambda m: [m[0], *m[5:], NEXT],
        "messages_removed",
        1,
        range(450, 611),
    ),
    "window slides by one message": (
        lambda m: [m[0], *m[2:], NEXT],
        "messages_removed",
        1,
        range(450, 611),
    ),
    "exchange taken out of the middle": (
        lambda m: [*m[:3], *m[5:], NEXT],
        "messages_removed",
        3,
        range(300, 411),
    ),
    "summary in the place of an exchange": (
        lambda m: [m[0], user("Summary of what was."), *m[3:], NEXT],
        "messages_removed",
        1,
        range(450, 611),
    ),
    "first question edited": (
        lambda m: [m[0], user("Question 0, edited?"), *m[2:], NEXT],
        "message_changed",
        1,
        range(450, 611),
    ),
    "question in the middle edited": (
        lambda m: [*m[:3], user("Question 1, edited?"), *m[4:], NEXT],
        "message_changed",
        3,
        range(300, 411),
    ),
    "newest question edited": (
        lambda m: [*m[:5], user("Question 2, edited?"), *m[6:], NEXT],
        "message_changed",
        5,
        range(100, 211),
    ),
    "old answer edited": (
        lambda m: [*m[:4], assistant("Edited."), *m[5:], NEXT],
        "message_changed",
        4,
        range(190, 231),
    ),
    "newest answer edited": (
        lambda m: [*m[:6], assistant("Edited."), NEXT],
        "message_changed",
        6,
        range(10, 11),
    ),
    "message put in": (
        lambda m: [*m[:3], user("Put in."), *m[3:], NEXT],
        "message_inserted",
        3,
        range(300, 411),
    ),
    "message put in first": (
        lambda m: [m[0], user("Put in."), *m[1:], NEXT],
        "message_inserted",
        1,
        range(450, 611),
    ),
    "system message put in": (
        lambda m: [*m[:5], say("system", "Be brief."), *m[5:], NEXT],
        "message_inserted",
        5,
        range(100, 211),
    ),
    "head changed": (
        lambda m: [say("system", "You hinder."), *m[1:], NEXT],
        "system_changed",
        0,
        range(590, 611),
    ),
    "head changed and window slid": (
        lambda m: [say("system", "You hinder."), *m[3:], NEXT],
        "system_changed",
        0,
        range(590, 611),
    ),
    "head gone": (lambda m: [*m[1:], NEXT], "system_changed", 0, range(590, 611)),
}


# With a short answer it could as well be a new conversation that got the same one.
UNSURE = {("first question edited", True)}


@pytest.mark.parametrize(
    ("name", "short"), [(n, s) for n in BROKEN for s in (True, False) if (n, s) not in UNSURE]
)
def test_what_is_a_break(name: str, short: bool) -> None:
    change, cause, index, lost = BROKEN[name]
    (found,) = broken(after(change, short=short))
    assert found[:2] == (cause, index)
    assert found[2] in lost


def test_details_say_where_and_hold_no_text() -> None:
    wire = after(lambda m: [say("system", "You are an agent that hinders."), *m[1:], NEXT])
    assert wire.of(PrefixBroken)[0].detail == (
        "system message 0 differs from character 51 of its JSON on"
    )
    wire = after(lambda m: [*m[:3], *m[5:], NEXT])
    assert wire.of(PrefixBroken)[0].detail == "messages removed before message 4"


def test_results_that_are_cleared_behind_the_newest_are_a_break_each_time() -> None:
    """A window over tool results: only the newest one is whole."""
    wire = Wire()
    messages = [HEAD, user("Do it.")]
    for number in range(4):
        wire.send(messages, call(f"call-{number}"))
        messages = [
            result(m["tool_call_id"], "[cleared]") if m["role"] == "tool" else m for m in messages
        ]
        messages += [call(f"call-{number}"), result(f"call-{number}", f"Result {number}. " * 100)]
    found = broken(wire)
    assert [(cause, index) for cause, index, _ in found] == [
        ("message_changed", 3),
        ("message_changed", 5),
    ]
    assert all(lost > 100 for *_, lost in found)


def test_a_reply_that_two_conversations_share_is_no_break() -> None:
    wire = Wire()
    for opening in ("Hello", "Good day", "Hi"):
        wire.send([HEAD, user(opening)], assistant("Hello! How can I help you today, dear user?"))
    for opening in ("Hello", "Good day", "Hi"):
        reply = assistant("Hello! How can I help you today, dear user?")
        wire.send([HEAD, user(opening), reply, user(f"Well, {opening}.")])
    assert broken(wire) == []


def test_the_price_is_known_without_the_servers_counts() -> None:
    wire = Wire()
    wire.send([HEAD, user("Question?")], assistant("An answer. " * 50))
    wire.send([HEAD, user("Question?"), assistant("Another."), NEXT])
    ((cause, index, lost),) = broken(wire)
    assert (cause, index) == ("message_changed", 2)
    assert 100 < lost < 300


def test_one_request_has_one_break_the_first() -> None:
    wire = after(lambda m: [say("system", "New."), user("Edited?"), *m[2:4], *m[6:], NEXT])
    assert len(broken(wire)) == 1
