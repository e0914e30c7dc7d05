"""Is clearing decided by what it costs and saves, and by nothing that nobody can know?"""

from __future__ import annotations

import math
from dataclasses import replace

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvagent import Clear, Edited, Engine, Policy
from kvagent.pricing import Layer, Line, Rent, Timings, carry_cost, due, worth
from tests.wire import Message, Wire, call, result, say

tokens = st.integers(0, 1_000_000)
carries = st.floats(0.001, 0.999)


@st.composite
def prompts(draw: st.DrawFn, fewest: int = 0) -> tuple[list[Layer], int]:
    """Results of a prompt as they follow each other, and its length."""
    layers, end = [], draw(tokens)
    for number in range(draw(st.integers(fewest, 8))):
        layer = Layer(3 * number + 1, end, draw(st.integers(1, 10_000)))
        layers.append(layer)
        end += layer.removable + draw(st.integers(0, 10_000))
    return layers, end


@st.composite
def rents(draw: st.DrawFn) -> Rent:
    """What turns and batches have left of prompts."""
    layers, _ = draw(prompts())
    rent = Rent(draw(st.integers(0, 1_000)))
    for layer in layers:
        rent, _ = due(rent, fresh=[layer], cached=0, kept=0, carry=draw(carries))
        if draw(st.booleans()):
            rent = rent.settled(layer.number)
    return rent


def one(turns: int, removable: int, rent: float) -> Rent:
    """A single layer at the front of the prompt."""
    return Rent(turns, (Layer(1, 0, removable, rent),))


def asked(rent: Rent, behind: int, kept: int, carry: float | None) -> bool:
    """Whether all of it is cleared where so many tokens stay behind it."""
    cached = sum(layer.removable for layer in rent.layers) + behind
    return due(rent, cached=cached, kept=kept, carry=carry)[1] is not None


@given(st.integers(0, 1_000), tokens, tokens, carries)
def test_nothing_to_free_is_never_due(turns: int, behind: int, kept: int, carry: float) -> None:
    assert not asked(Rent(turns), behind, kept, carry)
    assert (
        due(Rent(turns), fresh=[Layer(1, 5, 0)], cached=behind, kept=kept, carry=carry)[1] is None
    )


@given(rents(), tokens, tokens)
def test_without_a_known_price_nothing_is_due(rent: Rent, cached: int, kept: int) -> None:
    after, number = due(rent, cached=cached, kept=kept, carry=None)
    assert number is None
    assert after == replace(rent, turns=rent.turns + 1)


@given(st.integers(0, 1_000), st.integers(1, 1_000_000), carries)
def test_what_costs_nothing_is_due_at_once(turns: int, removable: int, carry: float) -> None:
    assert asked(one(turns, removable, 0.0), 0, 0, carry)


@given(
    st.integers(0, 1_000),
    st.integers(1, 1_000_000),
    st.floats(0, 1e6),
    tokens,
    tokens,
    carries,
    tokens,
    tokens,
    st.floats(0, 1e6),
)
def test_a_better_batch_is_never_refused_where_a_worse_one_is_due(
    turns: int,
    removable: int,
    paid: float,
    behind: int,
    kept: int,
    carry: float,
    more: int,
    less: int,
    rent: float,
) -> None:
    if asked(one(turns, removable, paid), behind, kept, carry):
        behind = max(0, behind - less)
        better = one(turns + less, removable + more, paid + rent)
        assert asked(better, behind, min(kept, behind), carry)


@given(st.integers(1, 10_000), st.integers(1, 100_000), st.integers(0, 100_000), carries)
def test_rent_without_clearing_stays_below_the_price_and_one_turn(
    removable: int, before: int, kept: int, carry: float
) -> None:
    """What ski rental promises, whatever comes: less than twice the price, and a turn."""
    price = (1 - carry) * (before + kept)
    assume(price / (carry * removable) < 2_000)
    rent, now = one(0, removable, 0.0), None
    while now is None:
        assert rent.layers[0].rent < price or not price
        rent, now = due(rent, cached=removable + before + kept, kept=kept, carry=carry)


@pytest.mark.parametrize("carry", [0.05, 0.1, 0.2])
@pytest.mark.parametrize(("kept", "grown"), [(2_000, 500), (10_000, 500), (4_000, 3_000)])
def test_a_steady_conversation_is_cleared_at_the_best_period(
    carry: float, kept: int, grown: int
) -> None:
    """The period at which rent and prices together are least: √(2·price/(carry·growth))."""
    rent, removable, made = Rent(turns=10_000), 0, []
    for turn in range(2_000):
        fresh = [Layer(turn, removable, grown)]
        removable += grown
        rent, number = due(rent, fresh=fresh, cached=removable + kept, kept=kept, carry=carry)
        if number is not None:
            rent, removable = rent.settled(number), 0
            made.append(turn)
    best = math.sqrt(2 * (1 - carry) * kept / (carry * grown))
    period = (made[-1] - made[0]) / (len(made) - 1)
    assert abs(period - best) <= 1


def test_what_is_paid_only_once_is_no_reason_to_wait_in_a_long_conversation() -> None:
    assert asked(one(400, 1_000, 900.0), 15_000, 1_000, 0.1)
    assert not asked(one(4, 1_000, 900.0), 15_000, 1_000, 0.1)


def test_a_small_tail_is_the_moment() -> None:
    rent = one(100, 2_000, 500.0)
    assert not asked(rent, 5_000, 4_000, 0.1)
    assert asked(rent, 5_000, 300, 0.1)


def test_a_long_text_is_a_reason_to_leave_out_what_stands_in_front_of_it() -> None:
    rent = Rent(10, (Layer(1, 0, 1_000), Layer(5, 200_000, 30_000)))
    rent, number = due(rent, cached=231_000, kept=0, carry=0.1)
    assert number == 5
    rent = rent.settled(number)
    assert (rent.left_out, [layer.number for layer in rent.layers]) == (True, [1])


def test_what_was_left_out_comes_back_when_it_has_cost_as_much() -> None:
    rent = Rent(10, (Layer(1, 0, 1_000),), left_out=True)
    turns, number, price = 0, None, 0.9 * 20_000
    while number is None:
        rent, number = due(rent, cached=21_000, kept=0, carry=0.1)
        turns += 1
    # what it has cost and what it would save in half its age
    assert 100 * (turns + rent.turns_left) == pytest.approx(price, abs=200)
    assert rent.settled(number) == Rent(rent.turns)


@given(prompts(fewest=1), st.integers(0, 500), tokens, carries)
def test_a_batch_begins_where_even_odds_say_that_it_saves_most(
    prompt: tuple[list[Layer], int], turns: int, kept: int, carry: float
) -> None:
    """Compared with every result as the first of a batch, though some are kept as one layer."""
    layers, cached = prompt
    rent, first = due(Rent(turns), fresh=layers, cached=cached, kept=kept, carry=carry)
    saved = {}
    for number, layer in enumerate(layers):
        removed = sum(each.removable for each in layers[number:])
        behind = cached - layer.place - removed
        saved[layer.number] = worth(removed, behind, carry, rent.turns_at(odds=1))
    if first is not None:
        assert saved[first] == pytest.approx(max(saved.values()), rel=1e-9, abs=1e-3)


@given(prompts(), st.integers(0, 500), carries)
def test_layers_say_how_much_there_is_and_how_much_it_has_cost(
    prompt: tuple[list[Layer], int], turns: int, carry: float
) -> None:
    layers, _ = prompt
    rent = Rent(turns)
    for layer in layers:
        rent, _ = due(rent, fresh=[layer], cached=0, kept=0, carry=carry)
    removable = sum(layer.removable for layer in layers)
    assert sum(layer.removable for layer in rent.layers) == removable
    paid = sum(n * carry * layer.removable for n, layer in enumerate(reversed(layers), 1))
    assert sum(layer.rent for layer in rent.layers) == pytest.approx(paid)
    assert [layer.number for layer in rent.layers] == sorted(each.number for each in rent.layers)


@given(rents(), st.integers(0, 30))
def test_a_batch_settles_what_it_clears_and_not_the_age(rent: Rent, number: int) -> None:
    after = rent.settled(number)
    assert after.turns == rent.turns
    assert len(after.layers) == after.left_out
    before = [layer for layer in rent.layers if layer.number < number]
    assert sum(layer.removable for layer in after.layers) == sum(each.removable for each in before)
    assert rent.settled() == Rent(rent.turns)


@given(prompts(fewest=1), tokens)
def test_what_a_batch_could_not_free_is_known_afterwards(
    prompt: tuple[list[Layer], int], freed: int
) -> None:
    rent = Rent(3, tuple(prompt[0]))
    last = rent.layers[-1].number
    removable = [layer.removable for layer in rent.layers]
    assert sum(each.removable for each in rent.settled(last, remaining=7).layers) == 7
    assert rent.settled(last, remaining=0) == Rent(3)
    corrected = [layer.removable for layer in rent.corrected(last, freed).layers]
    assert corrected[:-1] == removable[:-1]
    assert corrected[-1] == pytest.approx(freed, abs=1)
    assert due(rent.corrected(0, 0), cached=prompt[1], kept=0, carry=0.1)[1] is None


@given(rents(), tokens, tokens, carries, tokens)
def test_a_batch_frees_what_it_has_to(
    rent: Rent, cached: int, kept: int, carry: float, least: int
) -> None:
    now, number = due(rent, cached=cached, kept=kept, carry=carry, least=least)
    if number is not None:
        assert sum(each.removable for each in now.layers if each.number >= number) >= least


@given(rents(), tokens, tokens, carries)
def test_rent_outlives_its_process(rent: Rent, cached: int, kept: int, carry: float) -> None:
    kept_on_disk = Rent(**orjson.loads(orjson.dumps(rent)))
    assert kept_on_disk == rent
    assert due(kept_on_disk, cached=cached, kept=kept, carry=carry) == due(
        rent, cached=cached, kept=kept, carry=carry
    )


def test_the_turns_to_come_are_those_of_all_conversations_seen_at_any_turn() -> None:
    """Counted: of all lengths up to a very long one, the shorter the likelier, at any turn."""
    turn, longest = 12, 200_000
    chances = [1 / length**2 for length in range(turn, longest)]
    for odds in (1.0, 2.0):
        turns = Rent(turn).turns_at(odds)
        beyond = sum(chances[round(turns) - 1 :]) / sum(chances)
        assert beyond == pytest.approx(odds / (1 + odds), abs=0.02)


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


def test_what_stands_in_front_of_a_long_text_stays_when_what_is_behind_it_is_cleared() -> None:
    wire = Wire()
    policy = Policy(
        probe=False,
        evict=None,
        compact=None,
        clear=Clear(keep=1, carry_cost=0.2, clear_at_least=100, spare=0),
    )
    wire.engine = Engine(policy, on_event=wire.events.append)
    early = " ".join(f"early{number}" for number in range(150))
    late = " ".join(f"late{number}" for number in range(3_000))
    history = [
        *(say("system", "You help."), say("user", "Look.")),
        *(call("call-1"), result("call-1", early)),
        *(say("assistant", "I see."), say("user", "And this? " + "A long text. " * 4_000)),
        *(call("call-2"), result("call-2", late)),
    ]
    sent: list[Message] = []
    for number in range(3, 12):
        name = f"call-{number}"
        sent = wire.send(history, call(name))
        history += [call(name), result(name, "done")]
    first, second, *_ = (message for message in sent if message["role"] == "tool")
    assert first["content"] == early
    assert len(second["content"]) < len(late) / 4
    assert {edit.cause for edit in wire.of(Edited)} == {"carrying_costs"}
