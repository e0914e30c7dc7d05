"""Are growth, hits and the window counted as the server counts them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kvagent import KV, Engine, Policy, TurnFinished, WindowFilling
from kvagent.backends import Usage
from kvagent.entry import Facts
from kvagent.events import Event, Part
from kvagent.meter import Meter, part_of
from tests.wire import Message, Wire, call, result, say


def usage(prompt: int | None, cached: int | None = None, completion: int | None = None) -> Usage:
    return Usage(prompt, cached, completion, None)


def finish(
    meter: Meter,
    before: Facts | None,
    added: Mapping[Part, int],
    counts: Usage,
    window: int | None = None,
    *,
    again: bool = False,
) -> tuple[Facts, TurnFinished, list[Event]]:
    facts, events = meter.finish("c", before, added, counts, 0.5, window, again)
    finished, *rest = events
    assert isinstance(finished, TurnFinished)
    return facts, finished, rest


def test_a_turn_is_told_as_the_server_counted_it() -> None:
    _, turn, _ = finish(Meter(()), None, {"head": 80, "user": 20}, usage(200, 150, 30))
    assert (turn.turn, turn.conversation, turn.ttft_s) == (1, "c", 0.5)
    assert (turn.prompt_tokens, turn.cached_tokens, turn.completion_tokens) == (200, 150, 30)
    assert turn.prefilled_tokens == 50
    assert turn.growth == {"head": 160, "user": 40}
    assert turn.growth_per_turn is None  # one turn is no growth
    assert turn.turns_left is None


@pytest.mark.parametrize(
    ("counts", "prefilled"),
    [(usage(None), None), (usage(200), None), (usage(200, 0), 200), (usage(None, 5), None)],
)
def test_what_the_server_does_not_say_is_none(counts: Usage, prefilled: int | None) -> None:
    _, turn, _ = finish(Meter(()), None, {"head": 80}, counts)
    assert (turn.prompt_tokens, turn.cached_tokens) == (counts.prompt_tokens, counts.cached_tokens)
    assert turn.prefilled_tokens == prefilled


def test_growth_by_part_sums_up_to_the_servers_count() -> None:
    meter = Meter(())
    facts, _, _ = finish(meter, None, {"head": 50, "user": 7}, usage(100))
    added: dict[Part, int] = {"user": 3, "assistant": 11, "tool": 101}
    _, turn, _ = finish(meter, facts, added, usage(333))
    assert sum(turn.growth.values()) == 233
    assert turn.growth["tool"] > turn.growth["assistant"] > turn.growth["user"]
    assert turn.growth_per_turn == 233


def test_growth_per_turn_is_the_mean_of_the_last_eight() -> None:
    meter = Meter(())
    prompt, facts = 100, None
    for grown in (0, 5_000, *[100] * 7, 900):
        prompt += grown
        facts, turn, _ = finish(meter, facts, {"user": 10}, usage(prompt))
    assert turn.turn == 10
    assert turn.growth_per_turn == (7 * 100 + 900) / 8


def test_turns_left_follow_from_growth_and_window() -> None:
    meter = Meter(())
    facts, _, _ = finish(meter, None, {"user": 10}, usage(1_000), 10_000)
    facts, turn, _ = finish(meter, facts, {"user": 10}, usage(2_000, None, 500), 10_000)
    assert turn.turns_left == 7
    assert turn.window == 10_000
    _, turn, _ = finish(meter, facts, {"user": 10}, usage(12_000), 10_000)
    assert turn.turns_left == 0


def test_a_request_sent_again_is_no_turn() -> None:
    meter = Meter(())
    facts, _, _ = finish(meter, None, {"user": 10}, usage(100))
    facts, turn, _ = finish(meter, facts, {}, usage(100), again=True)
    assert (turn.turn, turn.growth, turn.growth_per_turn) == (1, {}, None)
    _, turn, _ = finish(meter, facts, {"user": 10}, usage(150))
    assert turn.turn == 2


def test_a_prompt_that_got_shorter_teaches_nothing() -> None:
    meter = Meter(())
    facts, _, _ = finish(meter, None, {"user": 10}, usage(100))
    before = meter.tokens("user", bytes(1_000))
    _, turn, _ = finish(meter, facts, {"user": 10}, usage(40))
    assert turn.growth == {}
    assert meter.tokens("user", bytes(1_000)) == before


def test_growth_is_not_known_behind_a_turn_without_counts() -> None:
    meter = Meter(())
    facts, _, _ = finish(meter, None, {"user": 10}, usage(None))
    _, turn, _ = finish(meter, facts, {"user": 10}, usage(500))
    assert turn.growth == {}
    assert turn.turn == 2


def test_estimates_learn_each_part_from_the_servers_counts() -> None:
    """Prose at four bytes a token, results at two: after some turns both are known."""
    meter = Meter(())
    facts: Facts | None = None
    prompt = 0
    for _ in range(60):
        for part, size, weight in (("user", 4_000, 4), ("tool", 2_000, 2)):
            prompt += size // weight
            name: Part = "user" if part == "user" else "tool"
            facts, _, _ = finish(
                meter, facts, {name: meter.tokens(name, bytes(size))}, usage(prompt)
            )
    assert meter.tokens("user", bytes(4_000)) == pytest.approx(1_000, rel=0.02)
    assert meter.tokens("tool", bytes(2_000)) == pytest.approx(1_000, rel=0.02)


@pytest.mark.parametrize("prompt", [1, 10**9])
def test_absurd_counts_do_not_spoil_the_estimates(prompt: int) -> None:
    meter = Meter(())
    for _ in range(50):
        finish(meter, None, {"user": meter.tokens("user", bytes(1_000))}, usage(prompt))
    assert 50 <= meter.tokens("user", bytes(1_000)) <= 1_502


def test_the_window_is_warned_of_once_a_share() -> None:
    meter = Meter((0.95, 0.7, 0.85))
    told = []
    facts: Facts | None = None
    for prompt in (500, 700, 720, 860, 970, 999):
        facts, _, events = finish(meter, facts, {"user": 9}, usage(prompt), 1_000)
        told.append([event.share for event in events if isinstance(event, WindowFilling)])
    assert told == [[], [0.7], [], [0.85], [0.95], []]


def test_a_jump_over_several_shares_is_told_whole() -> None:
    _, _, events = finish(Meter((0.7, 0.85)), None, {"user": 9}, usage(800, None, 100), 1_000)
    assert [(e.share, e.tokens, e.window) for e in events if isinstance(e, WindowFilling)] == [
        (0.7, 900, 1_000),
        (0.85, 900, 1_000),
    ]


def test_the_hit_rate_counts_only_what_the_server_told() -> None:
    meter = Meter(())
    assert [meter.hit_rate] == [None]
    finish(meter, None, {"user": 1}, usage(900))
    assert [meter.hit_rate] == [None]
    finish(meter, None, {"user": 1}, usage(100, 50, 7))
    assert [meter.hit_rate] == [0.5]
    assert (meter.turns, meter.prompt_tokens, meter.cached_tokens, meter.completion_tokens) == (
        2,
        1_000,
        50,
        7,
    )


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("system", "head"),
        ("developer", "head"),
        ("user", "user"),
        ("assistant", "assistant"),
        ("tool", "tool"),
        ("function", "tool"),
    ],
)
def test_every_role_has_its_part(role: str, part: str) -> None:
    assert part_of(role) == part


# -- through the engine


def session(wire: Wire, turns: int = 4, **request: Any) -> list[TurnFinished]:
    history: list[Message] = [say("system", "You help."), say("user", "Do it.")]
    prompt = 300
    for number in range(turns):
        made = call(f"call-{number}")
        counts = {
            "prompt_tokens": prompt,
            "completion_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": prompt - 100 if number else 0},
        }
        wire.send(history, made, usage=counts, **request)
        history += [made, result(f"call-{number}", "A result. " * 20)]
        prompt += 120
    finished: list[TurnFinished] = wire.of(TurnFinished)
    return finished


def test_a_session_is_metered_turn_by_turn() -> None:
    wire = Wire(window=1_000, clear=None, compact=None)
    turns = session(wire, 7)
    assert [turn.turn for turn in turns] == [1, 2, 3, 4, 5, 6, 7]
    assert [turn.prefilled_tokens for turn in turns] == [300, *[100] * 6]
    assert set(turns[0].growth) == {"head", "user"}
    assert set(turns[1].growth) == {"assistant", "tool"}
    assert all(sum(turn.growth.values()) == 120 for turn in turns[1:])
    assert turns[-1].growth_per_turn == 120
    assert [event.share for event in wire.of(WindowFilling)] == [0.70, 0.85, 0.95]
    assert wire.engine.meter.hit_rate == pytest.approx(1 - 900 / 4_620)


def test_a_session_without_counts_says_so() -> None:
    wire = Wire()
    wire.send([say("user", "Hi.")], say("assistant", "ok"))
    (turn,) = wire.of(TurnFinished)
    assert turn.prompt_tokens is None
    assert turn.cached_tokens is None
    assert turn.growth == {}


def test_observe_mode_meters_too() -> None:
    turns = session(Wire(mode="observe"))
    assert [turn.prompt_tokens for turn in turns] == [300, 420, 540, 660]


@pytest.mark.parametrize(
    ("kv", "expected"),
    [
        ({"model": "llama-3-8b"}, 131_072 * 410),
        ({"model": "llama-3-8b", "dtype": "q8_0"}, 69_632 * 410),
        ({"model": "llama-3-8b", "tp": 8}, 16_384 * 410),
    ],
)
def test_what_a_conversation_weighs(kv: dict[str, Any], expected: int) -> None:
    wire = Wire(kv=kv)
    counts = {"prompt_tokens": 400, "completion_tokens": 10}
    wire.send([say("user", "Hello")], say("assistant", "Hi."), usage=counts)
    wire.send(
        [say("user", "Hello"), say("assistant", "Hi."), say("user", "On.")], say("assistant", ".")
    )
    assert [event.kv_bytes for event in wire.of(TurnFinished)] == [expected, None]


def test_a_model_that_nobody_knows_is_named_at_once() -> None:
    with pytest.raises(ValueError, match="there is no model 'llama-9' in the table"):
        Engine(Policy(kv=KV(model="llama-9")))
