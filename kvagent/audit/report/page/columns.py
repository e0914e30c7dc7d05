"""How do stacked columns become paths that stretch to any width?

One path a series, in a box of whole numbers; the page stretches the box, so nothing in it is text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEIGHT = 1000
"""Of the box; 0 is its top."""
_WIDTH = 10
# Fewer columns than these would be slabs.
_PLACES = 12
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

    def ticks(self, wanted: int = 6) -> list[int]:
        """The columns that are named: the first and last ones and round ones between."""
        last = self.count - 1
        if last < wanted:
            return list(range(self.count))
        step = scale(last).step
        inner = [at - 1 for at in range(step, self.count, step) if at > step // 2]
        return [0, *(at for at in inner if step // 3 < at < last - step // 2), last]
