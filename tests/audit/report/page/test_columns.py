"""Do columns have the heights of their figures, and axes round numbers?"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.report.page.columns import HEIGHT, Columns, scale, ticks


@given(st.integers(0, 10**15))
def test_a_scale_is_round_and_just_large_enough(largest: int) -> None:
    made = scale(largest)
    assert made.top >= largest
    assert 2 <= len(made.marks) <= 5
    assert str(made.step).rstrip("0") in {"1", "2", "5"}
    assert made.marks[-1] == (made.top, 0.0)
    # No more than a step of it is empty.
    assert made.top == 2 or made.top - largest < made.step


@given(st.lists(st.tuples(*[st.integers(0, 10_000)] * 3), min_size=1, max_size=130))
def test_series_stand_one_on_the_other(values: list[tuple[int, ...]]) -> None:
    top = scale(max(map(sum, values))).top
    columns = Columns(len(values))
    paths = columns.paths([[each[n] for each in values] for n in range(3)], top)
    floors = [HEIGHT] * len(values)
    total = [0] * len(values)
    for number, path in enumerate(paths):
        drawn = {
            int(x): (int(low), int(high))
            for x, low, high in re.findall(r"M(\d+) (\d+)V(\d+)h\d+V\d+z", path)
        }
        for at, each in enumerate(values):
            total[at] += each[number]
            wanted = HEIGHT - HEIGHT * total[at] // top
            low, high = drawn.get(columns.left(at), (floors[at], floors[at]))
            assert (low, high) == (floors[at], wanted)
            floors[at] = wanted


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=700, unique=True))
def test_the_named_columns_are_few_and_in_order(numbers: list[int]) -> None:
    numbers.sort()
    named = ticks(numbers)
    assert len(named) <= max(7, 8)
    assert named[0] == (0, numbers[0])
    assert named[-1][0] == len(numbers) - 1
    assert all(a[0] <= b[0] and a[1] < b[1] for a, b in pairwise(named))


@pytest.mark.parametrize(
    ("last", "names"),
    [(8, [1, 2, 4, 6, 8]), (67, [1, 20, 40, 60, 67]), (484, [1, 100, 200, 300, 400, 484])],
)
def test_round_turns_are_named(last: int, names: list[int]) -> None:
    named = ticks(range(1, last + 1))
    assert [name for _, name in named] == names
    assert [at + 1 for at, _ in named] == names
