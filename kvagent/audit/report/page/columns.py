"""How do stacked columns become paths that stretch to any width?

One path a series, in a box of whole numbers; the page stretches the box, so nothing in it is text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT = 1000
"""Of the box; 0 is its top."""
_WIDTH = 10
# Fewer columns than these would be slabs.
_PLACES = 12
# So few are all named.
_ALL_NAMED = 7
# More than these have no gaps between them.
_APART = 100


@dataclass(frozen=True, slots=True)
class Scale:
    """From 0 up to where the axis ends, with a line at each step."""

    top: int
    step: int

    @property
    def marks(self) -> list[tuple[int, float]]:
        """The values with a line, and how far down each is, from 0 to 1."""
        return [(at, 1 - at / self.top) for at in range(self.step, self.top + 1, self.step)]


def scale(largest: int) -> Scale:
    """The smallest round scale of two to five steps that holds so much."""
    unit = 1
    while True:
        for step in (unit, unit * 2, unit * 5):
            if step * 5 >= largest:
                return Scale(step * max(2, -(-largest // step)), step)
        unit *= 10


@dataclass(frozen=True, slots=True)
class Columns:
    """Where columns stand in their box."""

    count: int

    @property
    def width(self) -> int:
        """Of the box."""
        return max(self.count, _PLACES) * _WIDTH

    def left(self, column: int) -> int:
        """Where a column begins."""
        return column * _WIDTH

    def middle(self, column: int) -> float:
        """The middle of a column, as a share of the box."""
        return (column + 0.5) * _WIDTH / self.width

    def paths(self, series: Sequence[Sequence[int]], top: int) -> list[str]:
        """The paths of some series, the first one at the bottom, on a scale up to ``top``."""
        gap = 0 if self.count > _APART else 1
        floors = [0] * self.count
        paths = []
        for values in series:
            drawn = []
            for column, value in enumerate(values):
                low = HEIGHT - HEIGHT * floors[column] // top
                floors[column] += value
                high = HEIGHT - HEIGHT * floors[column] // top
                if high < low:
                    wide = _WIDTH - gap
                    drawn.append(f"M{self.left(column)} {low}V{high}h{wide}V{low}z")
            paths.append("".join(drawn))
        return paths


def ticks(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The columns that are named, and their names: the first, the last, and round ones between.

    Args:
        numbers: what each column stands for, rising.
    """
    first, last = numbers[0], numbers[-1]
    if len(numbers) <= _ALL_NAMED:
        return list(enumerate(numbers))
    step = scale(last - first).step
    round_ones = range(first - first % step + step, last - step // 3, step)
    named = [(bisect_left(numbers, number), number) for number in round_ones]
    inner = [(at, number) for at, number in named if number - first > step // 3]
    return [(0, first), *inner, (len(numbers) - 1, last)]
