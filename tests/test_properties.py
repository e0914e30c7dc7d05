"""Do the rules of the design hold whatever an agent does? Random sessions, re-serialised at will."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent import Bypassed, Engine, Event, PrefixBroken
from kvagent.chat import text_of, texts_of
from kvagent.fingerprint import meaning
from kvagent.volatile import NOTE, PLACEHOLDER
from tests.strategies import Exchange, dumped, interleaved, only, play, policy, sessions, turns
from tests.wire import Message

# The same sessions each time; a search for new ones raises max_examples and lets chance in.
rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)


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


def lines_of(message: Message) -> list[str]:
    return [line for text in texts_of(message) for line in text.split("\n")]


def values_of(exchanges: Sequence[Exchange], conversation: int) -> set[str]:
    return {
        value
        for exchange in exchanges
        if exchange.conversation == conversation
        for value in exchange.values.values()
    }


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def kinds(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """What is to be equal of events; counts are estimates."""
    return [
        (type(event), *(getattr(event, name, None) for name in ("stage", "cause", "conversation")))
        for event in events
        if getattr(event, "stage", None) != "replay"
    ]


def stays(exchanges: list[Exchange], session: str | None = None) -> None:
    events: list[Event] = []
    sent = play(exchanges, engine(events), session)
    for at in range(len(exchanges)):
        before = continued(exchanges, at)
        assert not before or any(continues(sent[earlier], sent[at]) for earlier in before), at
    assert not [event for event in events if isinstance(event, PrefixBroken | Bypassed)]


@rule
@given(sessions(only(run_id=False, ticket=False)))
def test_what_was_sent_stays_while_a_clock_ticks(exchanges: list[Exchange]) -> None:
    stays(exchanges)


@rule
@given(sessions(only(greets=False)))
def test_what_was_sent_stays_where_replies_tell_conversations_apart(
    exchanges: list[Exchange],
) -> None:
    stays(exchanges)


@rule
@given(sessions())
def test_what_was_sent_stays_in_a_named_session(exchanges: list[Exchange]) -> None:
    stays(exchanges, session="ticket-4711")


@rule
@given(sessions())
def test_calls_and_results_stay_paired(exchanges: list[Exchange]) -> None:
    """Who says what and which call is answered is as the agent says, whatever is done to texts."""

    def shape(message: Message) -> tuple[Any, ...]:
        calls = [(call["id"], call["function"]["name"]) for call in message.get("tool_calls") or ()]
        return message["role"], message.get("tool_call_id"), calls

    for exchange, raw in zip(exchanges, play(exchanges, engine()), strict=True):
        assert [*map(shape, messages(raw))] == [*map(shape, messages(exchange.body))]


@rule
@given(sessions())
def test_what_was_taken_out_of_the_head_is_told(exchanges: list[Exchange]) -> None:
    """The newest value of each volatile line is in the head, or in the newest note about it."""
    for exchange, raw in zip(exchanges, play(exchanges, engine()), strict=True):
        head, *rest = messages(raw)
        for label, value in exchange.values.items():
            lines = [line for message in [head, *rest] for line in lines_of(message)]
            said = [line for line in lines if label in line and PLACEHOLDER not in line]
            assert said[-1] in (label + value, NOTE + label + value)


@rule
@given(sessions())
def test_a_reply_comes_back_as_it_was_generated(exchanges: list[Exchange]) -> None:
    generated = {
        call["id"]: call["function"]["arguments"]
        for exchange in exchanges
        for call in (exchange.reply or {}).get("tool_calls", ())
    }
    for raw in play(exchanges, engine()):
        for message in messages(raw):
            for call in message.get("tool_calls") or ():
                assert call["function"]["arguments"] == generated[call["id"]]


@rule
@given(sessions())
def test_a_shortened_result_is_never_longer_and_can_be_had_back(exchanges: list[Exchange]) -> None:
    used = engine(pin_head=None)
    for exchange, raw in zip(exchanges, play(exchanges, used), strict=True):
        for came, went in zip(messages(exchange.body), messages(raw), strict=True):
            if came["role"] == "tool" and meaning(came) != meaning(went):
                long, short = "\n".join(lines_of(came)), "\n".join(lines_of(went))
                assert len(short) < len(long)
                handle = re.search(r"kept as (\w+)", short)
                assert handle is not None
                assert meaning({**came, "content": used.recall(handle[1])}) == meaning(came)


@rule
@given(interleaved())
def test_nothing_of_one_conversation_reaches_another(exchanges: list[Exchange]) -> None:
    apart(exchanges)


@settings(rule, max_examples=100)
@given(
    interleaved(
        only(run_id=True, greets=True, loose_json=False),
        openings=["hello"],
        steps=turns("refused", "abandoned", "abandoned", "cut"),
    )
)
def test_nothing_reaches_another_although_they_read_alike(exchanges: list[Exchange]) -> None:
    """All begin with the same words, some get the same answers, and many tries fail."""
    apart(exchanges)


def apart(exchanges: list[Exchange]) -> None:
    said: dict[int, str] = {}
    for exchange, raw in zip(exchanges, play(exchanges, engine()), strict=True):
        number = exchange.conversation
        own = said.get(number, "") + exchange.body.decode()
        said[number] = own + json.dumps(exchange.reply)
        for other in {e.conversation for e in exchanges} - {number}:
            foreign = values_of(exchanges, other) - values_of(exchanges, number)
            assert not [value for value in foreign if value.encode() in raw]
        ids = set(re.findall(r"call_\d+_\d+_\d+", raw.decode()))
        assert all(name in own for name in ids)


@rule
@given(interleaved(), st.sampled_from(("safe", "full")))
def test_the_way_of_a_resumed_body_changes_nothing(exchanges: list[Exchange], mode: str) -> None:
    """Reading only what a body adds to one before gives the bytes and events of reading it all.

    But for replays: what is not read again is not said again to have been replayed.
    """
    quick: list[Event] = []
    whole: list[Event] = []
    fast = play(exchanges, engine(quick, mode=mode))
    with patch("kvagent.resume.Resumables.find", return_value=None):
        slow = play(exchanges, engine(whole, mode=mode))
    assert fast == slow
    assert kinds(quick) == kinds(whole)


@rule
@given(interleaved(agents=2))
def test_the_same_history_gives_the_same_bytes(exchanges: list[Exchange]) -> None:
    assert play(exchanges, engine()) == play(exchanges, engine())


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[subprocess.Popen[str]]:
    """A process that hashes otherwise and answers sessions."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from tests.strategies import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONHASHSEED": "4711", "PYTHONIOENCODING": "utf-8"},
    )
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@rule
@given(exchanges=interleaved(agents=2))
def test_another_process_gives_the_same_bytes(
    elsewhere: subprocess.Popen[str], exchanges: list[Exchange]
) -> None:
    assert elsewhere.stdin is not None
    assert elsewhere.stdout is not None
    print(dumped(exchanges), file=elsewhere.stdin, flush=True)
    answer = [raw.encode() for raw in json.loads(elsewhere.stdout.readline())]
    assert answer == play(exchanges, engine())


@rule
@given(sessions())
def test_the_same_request_again_gives_the_same_bytes(exchanges: list[Exchange]) -> None:
    """Where nothing has changed meanwhile, whatever form it is sent in."""
    used = engine()
    for exchange in exchanges:
        once = dataclasses.replace(exchange, outcome="cut", reply=None)
        assert play([once], used) == play([once], used)


@rule
@given(sessions())
def test_observing_changes_no_byte(exchanges: list[Exchange]) -> None:
    assert play(exchanges, engine(mode="observe")) == [exchange.body for exchange in exchanges]


@rule
@given(sessions())
def test_safe_mode_changes_no_text(exchanges: list[Exchange]) -> None:
    for exchange, raw in zip(exchanges, play(exchanges, engine(mode="safe")), strict=True):
        came, went = messages(exchange.body), messages(raw)
        assert [*map(meaning, went)] == [*map(meaning, came)]
        assert [text_of(m) for m in went if m["role"] != "tool"] == [
            text_of(m) for m in came if m["role"] != "tool"
        ]
        tools = [json.loads(body).get("tools") or [] for body in (exchange.body, raw)]
        assert sorted(map(canonical, tools[0])) == sorted(map(canonical, tools[1]))


@rule
@given(interleaved(only(greets=False), agents=2))
def test_what_an_engine_wrote_is_left_alone_by_the_next(exchanges: list[Exchange]) -> None:
    """A proxy behind a wrapped client, both with kvagent, changes nothing."""
    behind = engine()
    for exchange, raw in zip(exchanges, play(exchanges, engine()), strict=True):
        again = dataclasses.replace(exchange, body=raw)
        assert play([again], behind) == [raw]


@rule
@given(interleaved(agents=2))
def test_what_is_given_to_an_engine_stays_as_it_is(exchanges: list[Exchange]) -> None:
    before = copy.deepcopy(exchanges)
    play(exchanges, engine())
    assert exchanges == before
