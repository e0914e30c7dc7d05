"""Do events say what happened, in order, and never what was said?"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any, get_args

import pytest

from kvagent import Bypassed, Edited, Engine, Overflowed, Policy, PrefixBroken, TurnFinished
from kvagent.events import Cause, Event
from tests.wire import Message, Wire, call, result, say

SECRET = "xyzzy-plugh"


@pytest.mark.parametrize("kind", get_args(Event))
def test_events_are_frozen_values(kind: type[Event]) -> None:
    assert dataclasses.is_dataclass(kind)
    assert not hasattr(kind, "__dict__") or "__slots__" in vars(kind)
    values: dict[str, Any] = {field.name: 1 for field in dataclasses.fields(kind)}
    event = kind(**values)
    assert event == kind(**values)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, next(iter(values)), 2)


def eventful(wire: Wire) -> None:
    """A session in which much happens, with a secret in all that is said."""
    tools = [say("user", "")]
    head = "You help {}. Current time: 04:{} " + SECRET
    history: list[Message] = [say("user", f"One? {SECRET}")]
    for number in range(4):
        made = call(f"call-{number}", "run", f'{{"a":1,"b":"{SECRET}"}}')
        name = "ada" if number < 3 else f"bob {SECRET}"
        tools = [{"type": "function", "function": {"name": n, "description": SECRET}} for n in "ab"]
        wire.send([say("system", head.format(name, number + 10)), *history], made,
                  tools=tools[:: (-1) ** number])  # fmt: skip
        made = call(f"call-{number}", "run", f'{{"b": "{SECRET}", "a": 1}}')
        history += [made, result(f"call-{number}", f"{SECRET} {number} found here.\n" * 900)]
    wire.send([say("system", "x"), *history[3:], say("user", SECRET)], status=400,
              error=b'{"error":{"message":"' + SECRET.encode() + b'"}}')  # fmt: skip
    wire.send([say("system", "x"), say("user", SECRET), *history[3:], say("user", SECRET)])
    wire.send([say("system", "Today is Monday."), {"role": "user", "content": {SECRET: 1}}])


def test_no_event_holds_text_of_a_prompt() -> None:
    wire = Wire()
    eventful(wire)
    assert {type(event) for event in wire.events} >= {Edited, PrefixBroken, TurnFinished, Bypassed}
    assert SECRET not in repr(wire.events)


def test_nothing_of_a_prompt_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        eventful(Wire())
    assert SECRET not in caplog.text


def test_causes_are_those_that_are_documented() -> None:
    wire = Wire()
    eventful(wire)
    causes = {event.cause for event in (*wire.of(Edited), *wire.of(PrefixBroken))}
    assert causes <= set(get_args(Cause))


def test_edits_come_before_the_turn_they_belong_to_is_finished() -> None:
    wire = Wire()
    wire.send([say("system", "Today is Monday."), say("user", "Hi.")], say("assistant", "ok"))
    assert [type(event) for event in wire.events] == [Edited, TurnFinished]
    assert (
        len({event.conversation for event in wire.events if not isinstance(event, Bypassed)}) == 1
    )


def test_a_refused_request_tells_nothing_but_the_overflow() -> None:
    wire = Wire()
    error = (
        b'{"error":{"code":400,"message":"the request exceeds the available context size. try '
        b'increasing the context size or enable context shift","type":"exceed_context_size_error",'
        b'"n_prompt_tokens":9000,"n_ctx":8192}}'
    )
    wire.send([say("system", "Today is Monday."), say("user", "Hi.")], status=400, error=error)
    (event,) = wire.events
    assert isinstance(event, Overflowed)
    assert (event.status, event.prompt_tokens, event.window) == (400, 9000, 8192)


@pytest.mark.parametrize("mistake", [ValueError("no"), KeyError("x"), SystemError()])
def test_a_listener_that_raises_stops_nothing(
    mistake: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(event: Event) -> None:
        raise mistake

    wire = Wire(Engine(Policy(probe=False), on_event=listen))
    sent = wire.send(
        [say("system", "Today is Monday."), say("user", "Hi.")], say("assistant", "ok")
    )
    assert sent[0]["content"] != "Today is Monday."
    assert "on_event raised" in caplog.text


@pytest.mark.parametrize("stage", [None, "broken"])
def test_an_error_of_our_own_lets_the_request_out_as_it_came(
    stage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Event] = []

    def broken(turn: Any) -> None:
        raise ZeroDivisionError(SECRET)

    stages: list[Callable[[Any], None]] = [broken] if stage else []
    engine = Engine(Policy(probe=False), on_event=events.append, stages=stages)
    wire = Wire(engine)
    messages = [say("system", "Today is Monday."), say("user", "Hi.")]
    assert wire.send(messages, say("assistant", "ok")) == messages
    bypassed = [event for event in events if isinstance(event, Bypassed)]
    if stage:
        assert [type(event.error) for event in bypassed] == [ZeroDivisionError]
        assert "it goes out as it came" in caplog.text
    else:
        assert bypassed == []
