"""Do the rules of the design hold whatever an agent does? Random sessions, re-serialised at will."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent import Bypassed, Engine, Event, Evict, Policy, PrefixBroken, Tokens, Volatile
from kvagent.fingerprint import meaning
from kvagent.volatile import NOTE, PLACEHOLDER
from tests.strategies import (
    CLOCK,
    TICKETS,
    Exchange,
    Traits,
    interleaved,
    only,
    play,
    sessions,
    traits,
)

Message = dict[str, Any]

settings.register_profile("kvagent", derandomize=True, deadline=None, max_examples=30)
settings.load_profile("kvagent")

SHORT = Evict(trigger=Tokens(300), keep=200)


def policy(**fields: Any) -> Policy:
    fields.setdefault("evict", SHORT)
    return Policy(probe=False, volatile=Volatile(patterns=(TICKETS,)), **fields)


def engine(on_event: list[Event] | None = None, **fields: Any) -> Engine:
    return Engine(policy(**fields), on_event=None if on_event is None else on_event.append)


def messages(raw: bytes) -> list[Message]:
    found: list[Message] = json.loads(raw)["messages"]
    return found


def head_of(raw: bytes) -> bytes:
    body = json.loads(raw)
    return json.dumps([body["messages"][0], body.get("tools")]).encode()


def continues(before: bytes, after: bytes) -> bool:
    """Whether the prompt of one request begins with that of another."""
    old, new = messages(before), messages(after)
    return head_of(before) == head_of(after) and json.dumps(old) == json.dumps(new[: len(old)])


def continued(exchanges: Sequence[Exchange], at: int) -> list[int]:
    """The requests before that this one goes on from: the longest that it repeats whole."""
    history = exchanges[at].history
    before = [
        earlier
        for earlier in range(at)
        if exchanges[earlier].kept
        and exchanges[earlier].conversation == exchanges[at].conversation
        and len(exchanges[earlier].history) < len(history)
        and exchanges[earlier].history == history[: len(exchanges[earlier].history)]
    ]
    longest = max((len(exchanges[earlier].history) for earlier in before), default=0)
    return [earlier for earlier in before if len(exchanges[earlier].history) == longest]


def stays(exchanges: list[Exchange], session: str | None = None) -> None:
    events: list[Event] = []
    sent = play(exchanges, engine(events), session)
    for at in range(len(exchanges)):
        before = continued(exchanges, at)
        assert not before or any(continues(sent[earlier], sent[at]) for earlier in before), at
    assert not [event for event in events if isinstance(event, PrefixBroken | Bypassed)]


@given(sessions(only(run_id=False, ticket=False)))
def test_what_was_sent_stays_while_a_clock_ticks(exchanges: list[Exchange]) -> None:
    stays(exchanges)


@given(sessions(only(greets=False)))
def test_what_was_sent_stays_where_replies_tell_conversations_apart(
    exchanges: list[Exchange],
) -> None:
    stays(exchanges)


@given(sessions())
def test_what_was_sent_stays_in_a_named_session(exchanges: list[Exchange]) -> None:
    stays(exchanges, session="ticket-4711")
