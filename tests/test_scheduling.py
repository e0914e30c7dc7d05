"""Does the benchmark know the best times to clear, and does the rule come near to them?"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

turns = st.lists(
    st.tuples(st.integers(0, 400), st.lists(st.integers(1, 900), max_size=2)),
    min_size=1,
    max_size=5,
)
rates = st.sampled_from([0.05, 0.1, 0.2, 0.5])


@pytest.fixture(scope="module")
def scheduling() -> Any:
    if not BENCHMARKS.is_dir():
        pytest.skip("benchmarks are not part of a source distribution")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("scheduling")


def session(scheduling: Any, turns: list[tuple[int, list[int]]], keep: int) -> Any:
    """Turns of a reply and some results, by their tokens."""
    message = importlib.import_module("recordings").Message
    messages = [message("other", "x" * 50)]
    for reply, results in turns:
        messages += [message("reply", "x" * reply)]
        messages += [message("result", "x" * size) for size in results or [1]]
    recording = importlib.import_module("recordings").Recording("made", messages)
    return scheduling.Session.of(recording, len, keep, 30)


def clearing_at(choices: tuple[int, ...]) -> Callable[[float], Callable[..., int | None]]:
    """At each turn, from the so many-th of all results that can be cleared on; 0: not."""

    def rule(_: float) -> Callable[..., int | None]:
        when, numbers = iter(choices), list[int]()

        def decide(now: Any) -> int | None:
            numbers.extend(layer.number for layer in now.fresh)
            choice = next(when)
            if not 0 < choice <= len(numbers):
                return None
            number = numbers[choice - 1]
            del numbers[choice - 1 :]
            return number

        return decide

    return rule


@settings(deadline=None)
@given(turns=turns, rate=rates, keep=st.integers(0, 3))
def test_the_optimum_is_the_least_of_all_schedules(
    scheduling: Any, turns: list[tuple[int, list[int]]], rate: float, keep: int
) -> None:
    made = session(scheduling, turns, keep)
    choices = [range(old + 1) for old in made.old]
    assume(math.prod(map(len, choices)) <= 5_000)
    schedules = itertools.product(*choices)
    least = min(made.cost(clearing_at(schedule), rate)[-1] for schedule in schedules)
    assert made.optimum(rate)[-1] == pytest.approx(least)


@settings(deadline=None)
@given(turns=turns, rate=rates, keep=st.integers(0, 3))
def test_the_optimum_of_whole_batches_is_the_least_of_all_that_clear_everything(
    scheduling: Any, turns: list[tuple[int, list[int]]], rate: float, keep: int
) -> None:
    made = session(scheduling, turns, keep)
    schedules = itertools.product((0, 1), repeat=len(made.old))
    least = min(made.cost(clearing_at(schedule), rate)[-1] for schedule in schedules)
    assert made.whole_optimum(rate)[-1] == pytest.approx(least)


@given(turns=turns, rate=rates)
def test_no_rule_is_below_the_optimum_wherever_the_session_ends(
    scheduling: Any, turns: list[tuple[int, list[int]]], rate: float
) -> None:
    made = session(scheduling, turns, 1)
    for rule in scheduling.RULES.values():
        for paid, least in zip(made.cost(rule, rate), made.optimum(rate), strict=True):
            assert paid >= least - 1e-6


@given(turns=turns, keep=st.integers(0, 3))
def test_what_is_behind_is_what_is_left_of_the_cached_prompt(
    scheduling: Any, turns: list[tuple[int, list[int]]], keep: int
) -> None:
    """Counted message by message, with stubs where results were cleared."""
    made = session(scheduling, turns, keep)
    for turn, old in enumerate(made.old):
        for first in range(old):
            end, cached = made.results[first].end, made.cached[turn]
            freed = sum(each.freed for each in made.results[first + 1 : old] if each.end <= cached)
            assert made.behind(first, turn) == max(0, cached - end - freed)


@given(turns=turns, rate=rates, keep=st.integers(0, 3))
def test_the_rule_knows_what_is_behind_and_how_much_it_frees(
    scheduling: Any, turns: list[tuple[int, list[int]]], rate: float, keep: int
) -> None:
    """From places in the prompt as it stands, as the benchmark does from the whole recording."""
    made = session(scheduling, turns, keep)

    def rule(_: float) -> Callable[..., int | None]:
        def decide(now: Any) -> int | None:
            layers.extend(now.fresh)
            assert sum(layer.removable for layer in layers) == now.removable
            if layers:
                assert max(0, now.cached - layers[0].place - now.removable) == now.behind
            first = layers[len(layers) // 2].number if len(layers) > 2 else None
            layers[:] = [layer for layer in layers if first is None or layer.number < first]
            return first

        layers: list[Any] = []
        return decide

    made.cost(rule, rate)


# the meter that reads the sessions leaves closing its files to Python
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_recorded_sessions_are_cleared_near_the_optimum(
    scheduling: Any, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVAGENT_SHARED", str(shared))
    recordings = importlib.import_module("recordings").recordings()
    sessions = [
        scheduling.Session.of(recording, lambda text: max(1, len(text) // 4), 3, 30)
        for recording in recordings
    ]
    assert len(sessions) == 30
    for rate in scheduling.RATES:
        found = scheduling.score("kvagent", scheduling.kvagent, rate, sessions)
        assert found.total <= 1.4
        assert found.mean <= 1.25
        found = scheduling.score(
            "kvagent", scheduling.kvagent, rate, sessions, scheduling.Session.whole_optimum
        )
        assert found.total <= 1.35
        assert found.mean <= 1.2
