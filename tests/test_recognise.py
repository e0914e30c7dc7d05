"""Is a conversation recognised as what it is, and as no other?"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

import kvagent
from kvagent import Edited, PrefixBroken, TurnFinished
from kvagent.recognise import is_kin
from tests.wire import Message, Wire, call, compact, kept, result, say

HEAD = say("system", "You help.")
LONG = "This is a reply that is long enough to be told from what any other server may have said."


def user(text: Any) -> Message:
    return say("user", text)


def assistant(text: Any) -> Message:
    return say("assistant", text)


def conversations(wire: Wire) -> list[str]:
    return [event.conversation for event in wire.of(TurnFinished)]


def exchange(*texts: str) -> list[Message]:
    """User and assistant in turn."""
    return [(user, assistant)[at % 2](text) for at, text in enumerate(texts)]


# -- one conversation


@pytest.mark.parametrize("dump", [compact, json.dumps, lambda body: json.dumps(body, indent=1)])
def test_a_conversation_is_one_from_turn_to_turn(dump: Any) -> None:
    wire = Wire()
    history = [HEAD, user("One?")]
    for number in range(4):
        wire.send(history, assistant(f"{number}: {LONG}"), dump=dump)
        history += [assistant(f"{number}: {LONG}"), user(f"And {number}?")]
    assert len(set(conversations(wire))) == 1
    assert [event.turn for event in wire.of(TurnFinished)] == [1, 2, 3, 4]


def test_messages_that_come_in_another_form_are_replayed_and_counted() -> None:
    wire = Wire()
    history = [
        HEAD,
        user("One?"),
        assistant("Yes."),
        user("Two?"),
        assistant("No."),
        user("Three?"),
    ]
    for end in (2, 4):
        wire.send(history[:end], history[end])
    parts = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in history[1:]]
    wire.send([HEAD, *parts])
    assert kept(wire.bodies[1], wire.bodies[2])
    (replay,) = wire.of(Edited)
    assert (replay.stage, replay.cause, replay.index, replay.count) == (
        "replay",
        "message_reserialised",
        1,
        3,
    )
    assert replay.saved_tokens == 0  # a server is shown the same text, whether in parts or not


def test_empty_null_and_absent_content_are_one_message() -> None:
    wire = Wire()
    wire.send([HEAD, user("")], assistant(LONG))
    forms: list[Message] = [{"content": None}, {}, {"content": []}]
    for form in forms:
        wire.send([HEAD, {"role": "user", **form}, assistant(LONG), user("More?")])
        assert kept(wire.bodies[0], wire.bodies[-1])


def test_a_retry_is_not_another_turn() -> None:
    wire = Wire()
    for _ in range(3):
        wire.send([HEAD, user("One?")], assistant(LONG))
    assert [event.turn for event in wire.of(TurnFinished)] == [1, 1, 1]
    assert wire.raws[0] == wire.raws[2]


def test_a_request_that_was_refused_leaves_no_trace() -> None:
    wire = Wire()
    wire.send([HEAD, user("One?")], status=500)
    assert wire.events == []
    wire.send([HEAD, user("One?")], assistant(LONG))
    assert [event.turn for event in wire.of(TurnFinished)] == [1]


# -- branches


def test_going_back_and_fanning_out_break_nothing() -> None:
    wire = Wire()
    base = [HEAD, *exchange("One?", LONG, "Two?", "Yes.", "Three?")]
    for end in (2, 4, 6):
        wire.send(base[:end], assistant(LONG if end == 2 else "Yes."))
    for number in range(3):
        wire.send([*base[:3], user(f"Way {number}?")], assistant(f"Way {number}."))
    for number in range(3):
        wire.send([*base[:3], user(f"Way {number}?"), assistant(f"Way {number}."), user("On.")])
        assert kept(wire.bodies[3 + number], wire.bodies[-1])
    wire.send([*base, assistant("Yes."), user("Four?")])
    assert kept(wire.bodies[2], wire.bodies[-1])
    assert not wire.of(PrefixBroken)
    assert len(set(conversations(wire))) == 1


def test_two_conversations_with_the_same_beginning_share_it() -> None:
    wire = Wire()
    for name in ("a", "b"):
        wire.send([HEAD, user("Hello")], assistant(f"Hi {name}, {LONG}"))
    for name in ("a", "b"):
        sent = wire.send([HEAD, user("Hello"), assistant(f"Hi {name}, {LONG}"), user("More?")])
        assert sent[2]["content"].startswith(f"Hi {name}")
    assert not wire.of(PrefixBroken)


def test_the_same_words_under_another_head_are_another_conversation() -> None:
    wire = Wire()
    wire.send([HEAD, user("Hello")], assistant("Hi."))
    wire.send([say("system", "You hinder."), user("Hello")], assistant("Hi."))
    assert len(set(conversations(wire))) == 2
    assert not wire.of(PrefixBroken)


def test_two_heads_with_the_same_words_and_replies_go_on_side_by_side() -> None:
    wire = Wire()
    heads = [say("system", f"You are agent {n}. Today is Monday.") for n in range(2)]
    history = [user("Hello")]
    for number in range(4):
        reply = call(f"call-{number}")
        for head in heads:
            # One is read whole, the other one only from where it goes on.
            wire.send([head, *history], reply, dump=(compact, json.dumps)[heads.index(head)])
        history += [reply, result(f"call-{number}", "r")]
    for first in (0, 1):
        mine = wire.bodies[first::2]
        assert all(kept(a, b) for a, b in pairwise(mine))
    assert not wire.of(PrefixBroken)


def test_the_agents_instructions_may_change_and_change_back() -> None:
    wire = Wire()
    history = [user("Hello")]
    modes = ["plan", "plan", "act", "plan"]
    for number, mode in enumerate(modes):
        reply = call(f"call-{number}")
        wire.send([say("system", f"You {mode}. Today is Monday."), *history], reply)
        history += [reply, result(f"call-{number}", "r")]
    assert [(e.cause, e.index) for e in wire.of(PrefixBroken)] == [("system_changed", 0)]
    assert (
        wire.bodies[3]["messages"][: len(wire.bodies[1]["messages"])] == wire.bodies[1]["messages"]
    )


@pytest.mark.parametrize("model", ["other", None, 7])
def test_another_model_has_nothing_in_its_cache(model: Any) -> None:
    wire = Wire()
    wire.send([HEAD, user("Hello")], assistant(LONG))
    wire.send([say("system", "New."), user("Hello"), assistant(LONG), user("On.")], model=model)
    assert not wire.of(PrefixBroken)


def test_a_short_reply_proves_little_however_it_is_written() -> None:
    """The keys and parts that a framework puts around "ok" are no text that a model generated."""
    wire = Wire()
    wrapped = say(
        "assistant", [{"type": "text", "text": "ok"}], refusal=None, audio=None, function_call=None
    )
    runs = ["-".join(digit * length for length in (8, 4, 4, 4, 12)) for digit in "123"]
    one, other, changed = (say("system", f"This run is {run}.") for run in runs)
    wire.send([one, user("Hello")], assistant("ok"))
    wire.send([one, user("Hello"), wrapped, user("On.")], assistant("ok"))
    wire.send([other, user("Hello")], assistant("ok"))
    sent = wire.send([changed, user("Hello"), assistant("ok"), user("Another.")])
    assert "1111" not in json.dumps(sent)


# -- explicit sessions


def test_a_named_session_is_the_conversation() -> None:
    wire = Wire()
    with kvagent.session("ticket-4711"):
        wire.send([HEAD, user("One?")], assistant("Hi."))
    wire.send([HEAD, user("One?")], assistant("Hi."), session="ticket-4712")
    assert conversations(wire) == ["ticket-4711", "ticket-4712"]


@pytest.mark.parametrize("dump", [compact, json.dumps])
def test_a_named_session_keeps_its_own_values(dump: Any) -> None:
    """Nothing but the name tells these two apart: not one word differs, and both change."""
    wire = Wire()
    history = [user("Hello")]
    for number in range(4):
        for name in ("ada", "bob"):
            head = say("system", f"Session id: {name}-{number}")
            sent = wire.send([head, *history], assistant("ok"), session=name, dump=dump)
            assert {"ada": "bob", "bob": "ada"}[name] not in json.dumps(sent)
        history += [assistant("ok"), user("On.")]
    for first in (0, 1):
        mine = wire.bodies[first::2]
        assert all(kept(a, b) for a, b in pairwise(mine))


def test_a_session_without_a_name_does_not_take_a_named_ones_notes() -> None:
    wire = Wire()
    named = say("system", "Session id: ada-1")
    wire.send([named, user("Hello")], assistant(LONG), session="a")
    wire.send([say("system", "Session id: ada-2"), user("Hello"), assistant(LONG), user("On.")],
              assistant(LONG), session="a")  # fmt: skip
    sent = wire.send(
        [say("system", "Session id: bob-1"), user("Hello"), assistant(LONG), user("On.")],
        assistant(LONG),
    )
    assert "ada" not in json.dumps(sent)


def test_a_namespace_of_a_session_has_a_memory_of_its_own() -> None:
    wire = Wire()
    wire.send([HEAD, user("Hello")], call("call-1", "read", '{"a":1}'))
    spaced = [HEAD, user("Hello"), call("call-1", "read", '{"a": 1}'), result("call-1", "r")]
    with kvagent.session("x", namespace="other"):
        assert wire.send(spaced) == spaced
    assert wire.send(spaced) != spaced


# -- size


def test_ten_thousand_messages_are_fine() -> None:
    wire = Wire()
    history = [HEAD, *exchange(*(f"Message {number} of many." for number in range(9_999)))]
    wire.send(history, assistant("Done."))
    history += [assistant("Done."), user("More?")]
    wire.send(history, assistant("Done."))
    wire.send([*history, assistant("Done."), user("Still more?")], dump=json.dumps)
    assert kept(wire.bodies[0], wire.bodies[1])
    assert kept(wire.bodies[1], wire.bodies[2])
    assert not wire.of(PrefixBroken)


# -- kin


@pytest.mark.parametrize(
    ("message", "generated", "expected"),
    [
        (assistant("Hello there"), assistant("Hello there"), True),
        (assistant("Hello there, added"), assistant("Hello there"), True),
        (assistant(" Hello "), assistant("Hello there"), True),
        (assistant("Bye"), assistant("Hello there"), False),
        (assistant(""), assistant("Hello there"), False),
        (assistant(None), assistant(None), False),
        (call("a"), call("a"), True),
        (call("a", content="Added."), call("a"), True),
        (call("a", "read", '{"x": 1}'), call("b", "read", '{"x":1}'), True),  # new ids
        (call("a", "read", '{"x": 2}'), call("b", "read", '{"x":1}'), False),
        (call("a"), assistant("Hello"), False),
    ],
)
def test_kin_is_what_was_generated_perhaps_with_something_added(
    message: Message, generated: Message, expected: bool
) -> None:
    assert is_kin(message, generated) == expected
