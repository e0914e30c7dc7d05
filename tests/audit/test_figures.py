"""Is a figure short, and does it never say more than is known?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.figures import axis, change, count, several, share, short, size


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (count(1_234_567), "1,234,567"),
        (count(-5, exact=False), "≈−5"),
        (count(0, exact=False), "0"),
        (count(None), "–"),
        (change(1_234), "+1,234"),
        (change(-56, exact=False), "≈−56"),
        (change(0), "0"),
        (change(None), "–"),
        (short(999), "999"),
        (short(1_000), "1.00 k"),
        (short(12_345, exact=False), "≈12.3 k"),
        (short(999_499), "999 k"),
        (short(999_600), "1.00 M"),
        (short(43_767_695), "43.8 M"),
        (short(5 * 10**9), "5.00 G"),
        (share(0.97423), "97.4%"),
        (share(0.97423, exact=False), "≈97.4%"),
        (share(0.99996), ">99.9%"),
        (share(0.0001), "<0.1%"),
        (share(1.0), "100%"),
        (share(0.0), "0%"),
        (share(None), "–"),
        (size(1_023), "1,023 B"),
        (size(1_536), "1.50 KiB"),
        (size(522 << 20), "522 MiB"),
        (size(-(3 << 30), exact=False), "≈−3.00 GiB"),
        (size(5_000 << 40), "5,000 TiB"),
        (size(None), "–"),
        (axis(2_500), "2.5 k"),
        (axis(150_000), "150 k"),
        (axis(40), "40"),
        (several(1, "turn"), "1 turn"),
        (several(1_900, "turn"), "1,900 turns"),
        (several(2, "entry", "entries"), "2 entries"),
    ],
)
def test_a_figure(said: str, wanted: str) -> None:
    assert said == wanted


@given(st.integers(0, 10**13))
def test_a_short_figure_is_the_number_to_three_digits(number: int) -> None:
    said = short(number)
    value, _, unit = said.partition(" ")
    factor = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[unit]
    assert float(value) * factor == pytest.approx(number, rel=0.006, abs=0.5)
    assert len(value.replace(".", "")) <= 5


@given(st.floats(0, 1))
def test_all_and_nothing_are_said_only_of_all_and_nothing(part: float) -> None:
    assert (share(part) == "100%") == (part == 1)
    assert (share(part) == "0%") == (part == 0)
