"""Is clearing decided by what it costs and saves, and by nothing that nobody can know?"""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvagent.pricing import Line, Rent, Timings, carry_cost, due, worth

tokens = st.integers(0, 1_000_000)
carries = st.floats(0.001, 0.999)
rents = st.builds(Rent, turns=st.integers(0, 10_000), debt=st.floats(0, 1e9))


def asked(rent: Rent, removable: int, behind: int, kept: int, carry: float | None) -> bool:
    return due(rent, removable=removable, behind=behind, kept=kept, carry=carry)[1]


@given(rents, tokens, tokens, carries)
def test_nothing_to_free_is_never_due(rent: Rent, behind: int, kept: int, carry: float) -> None:
    assert not asked(rent, 0, behind, kept, carry)


@given(rents, tokens, tokens, tokens)
def test_without_a_known_price_nothing_is_due(
    rent: Rent, removable: int, behind: int, kept: int
) -> None:
    after, now = due(rent, removable=removable, behind=behind, kept=kept, carry=None)
    assert not now
    assert after == Rent(rent.turns + 1, rent.debt)


@given(rents, st.integers(1, 1_000_000), carries)
def test_what_costs_nothing_is_due_at_once(rent: Rent, removable: int, carry: float) -> None:
    assert asked(rent, removable, 0, 0, carry)


@given(rents, tokens, tokens, tokens, carries, tokens, tokens, st.floats(0, 1e6))
def test_a_better_batch_is_never_refused_where_a_worse_one_is_due(
    rent: Rent,
    removable: int,
    behind: int,
    kept: int,
    carry: float,
    more: int,
    less: int,
    debt: float,
) -> None:
    if asked(rent, removable, behind, kept, carry):
        better = Rent(rent.turns + less, rent.debt + debt)
        behind = max(0, behind - less)
        assert asked(better, removable + more, behind, min(kept, behind), carry)


@given(st.integers(1, 10_000), st.integers(1, 100_000), st.integers(0, 100_000), carries)
def test_rent_without_clearing_stays_below_the_price_and_one_turn(
    removable: int, before: int, kept: int, carry: float
) -> None:
    """What ski rental promises, whatever comes: less than twice the price, and a turn."""
    price = (1 - carry) * (before + kept)
    assume(price / (carry * removable) < 2_000)
    rent, now = Rent(), False
    while not now:
        assert rent.debt < price
        rent, now = due(rent, removable=removable, behind=before + kept, kept=kept, carry=carry)


@pytest.mark.parametrize("carry", [0.05, 0.1, 0.2])
@pytest.mark.parametrize(("kept", "grown"), [(2_000, 500), (10_000, 500), (4_000, 3_000)])
def test_a_steady_conversation_is_cleared_at_the_best_period(
    carry: float, kept: int, grown: int
) -> None:
    """The period at which rent and prices together are least: √(2·price/(carry·growth))."""
    rent, removable, made = Rent(turns=10_000), 0, []
    for turn in range(2_000):
        removable += grown
        rent, now = due(rent, removable=removable, behind=kept, kept=kept, carry=carry)
        if now:
            rent, removable = rent.settled(), 0
            made.append(turn)
    best = math.sqrt(2 * (1 - carry) * kept / (carry * grown))
    period = (made[-1] - made[0]) / (len(made) - 1)
    assert abs(period - best) <= 1


def test_what_is_paid_only_once_is_no_reason_to_wait_in_a_long_conversation() -> None:
    long, young = Rent(turns=400, debt=900.0), Rent(turns=4, debt=900.0)
    assert asked(long, 1_000, 15_000, 1_000, 0.1)
    assert not asked(young, 1_000, 15_000, 1_000, 0.1)


def test_a_small_tail_is_the_moment() -> None:
    rent = Rent(turns=100, debt=500.0)
    assert not asked(rent, 2_000, 5_000, 4_000, 0.1)
    assert asked(rent, 2_000, 5_000, 300, 0.1)


def test_a_batch_settles_the_debt_and_not_the_age() -> None:
    assert Rent(turns=7, debt=12.5).settled() == Rent(turns=7)


@given(rents, tokens, tokens, tokens, carries)
def test_rent_outlives_its_process(
    rent: Rent, removable: int, behind: int, kept: int, carry: float
) -> None:
    kept_on_disk = Rent(**json.loads(json.dumps(asdict(rent))))
    arguments = {"removable": removable, "behind": behind, "kept": kept, "carry": carry}
    assert due(kept_on_disk, **arguments) == due(rent, **arguments)  # type: ignore[arg-type]


@given(st.integers(1, 100_000), tokens, carries)
def test_an_edit_breaks_even_where_what_it_frees_has_paid_its_price(
    removed: int, behind: int, carry: float
) -> None:
    even = (1 - carry) / carry * behind / removed
    assert worth(removed, behind, carry, even) == pytest.approx(0, abs=1e-6 * (behind + 1))
    assert worth(removed, behind, carry, even + 1) > 0


def test_shortening_before_it_was_sent_always_saves() -> None:
    assert worth(100, 0, 0.05, 10) == pytest.approx(50)


def timings(*turns: tuple[int, int, float, int, float]) -> Timings:
    found = Timings()
    for cached, prefilled, prefill, generated, decode in turns:
        found = found.with_turn(
            cached=cached,
            prefilled=prefilled,
            prefill_seconds=prefill,
            generated=generated,
            decode_seconds=decode,
        )
    return found


def on_a_server(
    turns: int, *, prefill: float, attention: float, decode: float, read: float
) -> Timings:
    """Timings as the formulas of prefill and decode give them, exactly."""
    made, cached = [], 0
    for number in range(turns):
        new, answer = 1_000 + 500 * (number % 3), 300
        seconds = new * (prefill + attention * (cached + new / 2))
        context = cached + new
        made.append(
            (cached, new, seconds, answer, answer * (decode + read * (context + answer / 2)))
        )
        cached = context + answer
    return timings(*made)


def test_carry_is_what_the_formula_says() -> None:
    """(read · generated + attention · prefilled) / prefill, as a server's turns show it."""
    found = on_a_server(40, prefill=3.2e-5, attention=1e-9, decode=8e-3, read=2.7e-8)
    alpha = found.prefill.y
    carry = carry_cost(found)
    assert carry == pytest.approx((2.7e-8 * 300 + 1e-9 * 1_500) / alpha, rel=0.01)


@given(st.floats(1e-6, 1e-2), st.floats(1e-12, 1e-8), st.floats(1e-12, 1e-6))
def test_carry_does_not_depend_on_the_unit_of_time(
    prefill: float, attention: float, read: float
) -> None:
    seconds = on_a_server(33, prefill=prefill, attention=attention, decode=0.0, read=read)
    hours = on_a_server(
        33, prefill=prefill / 3600, attention=attention / 3600, decode=0.0, read=read / 3600
    )
    assert carry_cost(hours) == pytest.approx(carry_cost(seconds), rel=1e-6)


@pytest.mark.parametrize("turns", [0, 1, 2, 29])
def test_from_few_turns_nothing_is_guessed(turns: int) -> None:
    found = on_a_server(turns, prefill=3e-5, attention=1e-9, decode=8e-3, read=3e-8)
    assert carry_cost(found) is None


def test_noise_is_no_slowing() -> None:
    steady = timings(
        *(
            (1_000 * n, 500, 0.05 * (1 + 0.1 * (-1) ** n), 100, 0.9 + 0.1 * (-1) ** n)
            for n in range(60)
        )
    )
    assert carry_cost(steady) is None


def test_a_server_that_gets_faster_says_nothing() -> None:
    found = on_a_server(40, prefill=3e-3, attention=-1e-9, decode=8e-3, read=-1e-8)
    assert carry_cost(found) is None


def test_turns_without_tokens_tell_nothing() -> None:
    assert timings((100, 0, 0.0, 0, 0.0)) == Timings()


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(0, 1e3), st.floats(0.1, 1e4)),
        min_size=1,
        max_size=20,
    )
)
def test_a_line_keeps_means_and_squares(points: list[tuple[float, float, float]]) -> None:
    line = Line()
    for x, y, weight in points:
        line = line.with_point(x, y, weight)
    total = sum(weight for _, _, weight in points)
    mean = sum(weight * x for x, _, weight in points) / total
    squares = sum(weight * (x - mean) ** 2 for x, _, weight in points)
    assert line.weight == pytest.approx(total)
    assert line.x == pytest.approx(mean)
    assert line.xx == pytest.approx(squares, rel=1e-6, abs=1e-6 * (1 + total * mean**2))
