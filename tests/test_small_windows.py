"""Do the rules hold when old turns have to go? Random sessions in windows that are too small."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent import Bypassed, Clear, Edited, Engine, Event, PrefixBroken
from kvagent.chat import ChatReply, calls_of, shown
from kvagent.compaction.extractive import extractive
from kvagent.flow import Answer, Call, drive
from kvagent.policy import Compact
from kvagent.tokens import count_tokens
from tests.strategies import Exchange, only, play, policy, send, sessions
from tests.test_properties import continued, messages
from tests.wire import Message, Wire, call, kept, result, say

rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
windows = st.sampled_from((600, 1_000, 2_000))
_BATCHES = ("clear", "compact")


def small(window: int, events: list[Event] | None = None, **options: Any) -> Engine:
    told = None if events is None else events.append
    compact = Compact(keep_turns=2, background=False)
    return Engine(policy(window=window, compact=compact), on_event=told, **options)


def is_batch(event: Event) -> bool:
    return isinstance(event, Edited) and event.stage in _BATCHES


@rule
@given(sessions(only(run_id=False, ticket=False, clock=False)), windows)
def test_a_prefix_breaks_only_where_an_edit_says_so(exchanges: list[Exchange], window: int) -> None:
    events: list[Event] = []
    engine = small(window, events)
    sent: list[bytes] = []
    for at, exchange in enumerate(exchanges):
        events.clear()
        sent.append(send(exchange, engine))
        before = nearest(exchanges, at)
        if exchange.kept and before and not any(map(is_batch, events)):
            assert any(shares(exchanges, sent, earlier, at) for earlier in before), at
        assert not [event for event in events if isinstance(event, PrefixBroken | Bypassed)]


def shares(exchanges: Sequence[Exchange], sent: list[bytes], earlier: int, at: int) -> bool:
    """Whether a prompt begins with all of an earlier one that both histories have in common."""
    one, other = exchanges[earlier].history, exchanges[at].history
    own = len(other) - common(one, other)
    now = messages(sent[at])
    return now[: len(now) - own] == messages(sent[earlier])[: len(now) - own]


def common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)))  # fmt: skip


def nearest(exchanges: Sequence[Exchange], at: int) -> list[int]:
    """The requests before with which this one has as much in common as with one it goes on from."""
    before = continued(exchanges, at)
    history = exchanges[at].history
    longest = max((len(exchanges[earlier].history) for earlier in before), default=len(history))
    return [
        earlier
        for earlier in range(at)
        if exchanges[earlier].kept
        and exchanges[earlier].conversation == exchanges[at].conversation
        and common(exchanges[earlier].history, history) >= longest
    ]


@rule
@given(sessions(), windows)
def test_calls_and_results_stay_whole(exchanges: list[Exchange], window: int) -> None:
    """In the wire's order: each result behind its call, each call answered before the next reply."""
    for exchange, raw in zip(exchanges, play(exchanges, small(window)), strict=True):
        assert orphans(messages(raw)) <= orphans(messages(exchange.body))


def orphans(body: Sequence[Message]) -> set[str]:
    missing: set[str] = set()
    found: set[str] = set()
    for message in body:
        if message["role"] == "tool":
            name = message["tool_call_id"]
            if name in missing:
                missing.remove(name)
            else:
                found.add(name)
        else:
            found |= missing
            missing = {str(made["id"]) for made in calls_of(message)}
    return found | missing


@rule
@given(sessions(), windows)
def test_the_same_history_gives_the_same_bytes(exchanges: list[Exchange], window: int) -> None:
    assert play(exchanges, small(window)) == play(exchanges, small(window))


@settings(rule, max_examples=10)
@given(sessions(only(run_id=False, ticket=False)), windows, st.data())
def test_another_engine_with_the_same_store_goes_on_the_same_way(
    tmp_path_factory: pytest.TempPathFactory,
    exchanges: list[Exchange],
    window: int,
    data: st.DataObject,
) -> None:
    restart = data.draw(st.integers(0, len(exchanges)))
    folder: Path = tmp_path_factory.mktemp("store")
    store = str(folder / "kvagent.sqlite")
    first = play(exchanges[:restart], small(window, store=store))
    sent = first + play(exchanges[restart:], small(window, store=store))
    assert sent == play(exchanges, small(window))


@rule
@given(sessions(), windows)
def test_a_prompt_never_gets_longer(exchanges: list[Exchange], window: int) -> None:
    for exchange, raw in zip(exchanges, play(exchanges, small(window)), strict=True):
        assert weight(raw) <= weight(exchange.body) + 200  # what is told in notes


def weight(raw: bytes) -> int:
    return sum(count_tokens(shown(message)) + 4 for message in messages(raw))


@rule
@given(sessions(), windows)
def test_batches_free_enough_to_be_worth_a_break(exchanges: list[Exchange], window: int) -> None:
    events: list[Event] = []
    play(exchanges, small(window, events))
    for event in events:
        if isinstance(event, Edited) and event.stage in _BATCHES:
            assert event.freed_tokens > 0
            if event.stage == "clear":
                assert event.freed_tokens >= window // 20 - 10


@rule
@given(sessions(only(run_id=False, ticket=False)))
def test_a_narrative_changes_no_rule(exchanges: list[Exchange]) -> None:
    events: list[Event] = []
    engine = small(1_000, events, summarizer=extractive)
    for exchange, raw in zip(exchanges, play(exchanges, engine), strict=True):
        assert orphans(messages(raw)) <= orphans(messages(exchange.body))
    assert not [event for event in events if isinstance(event, PrefixBroken | Bypassed)]


# -- a long session


def grown(turns: int, size: int = 60) -> list[list[Message]]:
    """The histories of an agent that reads a file each turn."""
    history: list[Message] = [
        say("system", "You are a careful agent."),
        say("user", "Port the parser. Never touch the file LEGACY.txt."),
    ]
    histories: list[list[Message]] = []
    for number in range(turns):
        histories.append(list(history))
        lines = "\n".join(
            f"{line}: value_{number * 1_000 + line} = compute_{number}({line})"
            for line in range(size)
        )
        made = call(f"call-{number}", "read", {"path": f"src/part_{number}.py"})
        history += [made, result(f"call-{number}", lines)]
    return histories


def tokens(body: Sequence[Message]) -> int:
    return sum(count_tokens(shown(message)) + 4 for message in body)


def play_long(wire: Wire, histories: list[list[Message]]) -> list[list[Message]]:
    bodies = []
    for at, history in enumerate(histories):
        following = histories[at + 1][len(history)] if at + 1 < len(histories) else None
        bodies.append(wire.send(history, following))
    return bodies


def test_hundreds_of_turns_fit_a_small_window() -> None:
    window = 6_000
    wire = Wire(window=window)
    histories = grown(300)
    bodies = play_long(wire, histories)
    assert max(map(tokens, bodies)) <= window
    assert tokens(histories[-1]) > 30 * window
    assert not wire.of(PrefixBroken)
    assert not wire.of(Bypassed)
    batches = [edit for edit in wire.of(Edited) if edit.stage in _BATCHES]
    breaks = sum(
        not kept({"messages": before}, {"messages": after}) for before, after in pairwise(bodies)
    )
    assert 0 < breaks <= len(batches)
    assert breaks < 300 / 4
    assert "Never touch the file LEGACY.txt." in json.dumps(bodies[-1])


def test_the_newest_results_are_left_alone() -> None:
    wire = Wire(window=6_000, clear=Clear(keep=2), evict=None)
    for history, body in zip(histories := grown(40), play_long(wire, histories), strict=True):
        results = [message for message in history if message["role"] == "tool"][-2:]
        assert [message for message in body if message["role"] == "tool"][-2:] == results


def test_going_back_before_an_edit_finds_what_was_sent_then() -> None:
    wire = Wire(window=6_000)
    histories = grown(40)
    bodies = play_long(wire, histories)
    again = wire.send([*histories[3], say("user", "Wait, look at the other one first.")])
    assert kept({"messages": bodies[3]}, {"messages": again})


def test_a_history_that_was_never_seen_is_made_to_fit() -> None:
    wire = Wire(window=6_000)
    body = wire.send(grown(80)[-1])
    assert tokens(body) <= 6_000
    assert not wire.of(PrefixBroken)
    assert not orphans(body)


def test_a_session_goes_on_after_the_window_was_learned_from_a_refusal() -> None:
    """Nothing is known of the window; then the server says it."""
    wire = Wire()
    histories = grown(40)
    refusal = json.dumps(
        {
            "error": {
                "code": 400,
                "message": "request (9000 tokens) exceeds the available context size (6000 tokens), "
                "try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 6000,
            }
        }
    ).encode()
    calls: list[int] = []

    def answer(sent: Call) -> tuple[Answer, bytes]:
        size = tokens(messages(sent.body))
        calls.append(size)
        return (Answer(400, refusal), sent.body) if size > 6_000 else (Answer(200), sent.body)

    for history in histories:
        calls.clear()
        body = {"model": "m", "messages": history}
        raw, settle = drive(wire.engine.turn(json.dumps(body).encode()), answer)
        assert calls[-1] <= 6_000
        assert len(calls) <= 2
        settle(ChatReply(complete=False), None)
        assert not orphans(messages(raw))


def test_a_prompt_that_cannot_fit_is_left_for_the_server_to_refuse() -> None:
    """The task alone is longer than the window: to clear results would only blind the agent."""
    wire = Wire(window=2_000)
    history: list[Message] = [say("user", "word " * 3_000)]
    for number in range(3):
        history += [
            call(f"call-{number}", "read", {"path": f"part_{number}.py"}),
            result(f"call-{number}", "\n".join(f"{line} is fine" for line in range(12))),
        ]
        assert wire.send(history) == history
    assert not [edit for edit in wire.of(Edited) if edit.stage in _BATCHES]


def test_a_server_with_longer_tokens_gets_shorter_prompts() -> None:
    """Estimates are in the server's tokens, also those of what a record or a stub takes."""
    engine = small(6_000)
    histories = grown(60)
    sizes: list[int] = []
    for at, history in enumerate(histories):
        body = json.dumps({"model": "m", "messages": history}).encode()
        raw, settle = drive(engine.turn(body), lambda sent: (Answer(200), sent.body))
        sizes.append(int(1.6 * tokens(messages(raw))))
        counts = {"usage": {"prompt_tokens": sizes[-1], "completion_tokens": 20}}
        reply = histories[at + 1][-2] if at + 1 < len(histories) else say("assistant", "Done.")
        settle(ChatReply((reply,), counts, complete=True), None)
    assert max(sizes) <= 6_000
