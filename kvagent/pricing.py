"""When does it pay to clear old tool results?

The unit is the prefill of one uncached token. Whatever is carried in the prompt costs ``carry`` of
it for each token and turn: attention reads it again for every token that is generated. An edit that
takes tokens out saves that rent from then on, and costs the prefill of what is cached behind it, of
which the rent of one turn is spared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Rent:
    """What a conversation carries from turn to turn, to decide when to clear."""

    turns: int = 0
    """Turns that were priced before."""
    debt: float = 0.0
    """Rent paid since the last batch for what could have been removed, in prefilled tokens."""

    @property
    def turns_left(self) -> float:
        """The turns to reckon with: half as many as there were.

        Nothing tells how long a conversation will be. Of those seen at a moment that is nothing
        special, one that is t turns old goes on for x more with a chance of t / (t + x): two to
        one for half its age, even for its age.
        """
        return self.turns / 2

    def settled(self) -> Rent:
        """The rent after a batch was made, for whatever reason."""
        return replace(self, debt=0.0)


def due(
    rent: Rent, *, removable: int, behind: int, kept: int, carry: float | None
) -> tuple[Rent, bool]:
    """Whether to clear now, before this turn is sent, and the rent with this turn in it.

    Ask once a turn, and take ``settled()`` of the rent when a batch was made.

    A batch must pass two questions. *Is it time?* What stays in front of the kept tail is prefilled
    anew by one batch only, now or later, but the tail by every batch: so wait until the rent paid
    has reached the price of the tail. That is the period at which rent and prices together are
    least if the conversation goes on as it is, and it takes the moments at which the tail is small.
    *Will it pay?* In the turns to reckon with, what it frees must save the whole price. Where the
    rent paid has reached the whole price, it was worth it already: waiting any longer could cost
    more than twice what is best, whatever comes.

    Args:
        rent: what the last turn gave, ``Rent()`` at first.
        removable: tokens that a batch would free now.
        behind: cached tokens that it would have prefilled anew: those behind the first byte that
            it would change, less what it frees of them.
        kept: of these, the tail that stays as it is: from the first result on that a batch spares.
        carry: what a token costs a turn, in prefilled tokens; None: not known, so never due.
    """
    now = replace(rent, turns=rent.turns + 1)
    if carry is None or removable <= 0:
        return now, False
    now = replace(now, debt=rent.debt + carry * removable)
    price, again = _price(behind, carry), _price(min(kept, behind), carry)
    in_time = now.debt >= again
    pays = worth(removable, behind, carry, now.turns_left) >= 0 or now.debt >= price
    return now, in_time and pays


def worth(removed: int, behind: int, carry: float, turns_left: float) -> float:
    """Prefilled tokens that an edit saves, its own price deducted; below 0 it costs more.

    Args:
        removed: tokens that it takes out of every later prompt.
        behind: cached tokens behind its first changed byte that must be prefilled anew.
        carry: what a token costs a turn, in prefilled tokens.
        turns_left: turns to come, this one included.
    """
    return removed * carry * turns_left - _price(behind, carry)


def _price(behind: int, carry: float) -> float:
    return max(0.0, 1.0 - carry) * behind


# Fewer points lie near a line by chance: what else a machine does changes slowly, so that turns
# that follow each other are slow together.
_POINTS = 30
# No server carries a token for more: with short prompts and long replies on a large GPU it is 0.3.
_HIGHEST = 0.3


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through what was measured, each value weighing as many tokens as it tells of.

    Only sums are kept, so that it can be stored and grows with nothing.
    """

    points: int = 0
    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0
    """Means of x and y, and the weighted sums of squares about them."""

    def with_point(self, x: float, y: float, weight: float) -> Line:
        """The line with one more measured value."""
        if weight <= 0:
            return self
        total = self.weight + weight
        dx, dy = x - self.x, y - self.y
        part = weight / total
        return Line(
            points=self.points + 1,
            weight=total,
            x=self.x + part * dx,
            y=self.y + part * dy,
            xx=self.xx + self.weight * part * dx * dx,
            xy=self.xy + self.weight * part * dx * dy,
            yy=self.yy + self.weight * part * dy * dy,
        )

    @property
    def slope(self) -> float | None:
        """How much y grows with x at least; None where that cannot be told from chance.

        Two of its standard errors are taken off: what is paid for too early is paid for certain.
        """
        if self.points < _POINTS or self.xx <= 0:
            return None
        slope = self.xy / self.xx
        unexplained = max(0.0, self.yy - slope * self.xy)
        error = math.sqrt(unexplained / (self.points - 2) / self.xx)
        return slope - 2 * error if slope > 2 * error else None


@dataclass(frozen=True, slots=True)
class Timings:
    """How long the turns of a conversation took on the server, as sums."""

    prefill: Line = field(default_factory=Line)
    """Seconds for a prefilled token, over the tokens before it."""
    decode: Line = field(default_factory=Line)
    """Seconds for a generated token, over the tokens before it."""

    def with_turn(
        self,
        *,
        cached: int,
        prefilled: int,
        prefill_seconds: float,
        generated: int,
        decode_seconds: float,
    ) -> Timings:
        """The timings with one more turn; a part with no token in it tells nothing."""
        prefill, decode = self.prefill, self.decode
        if prefilled > 0:
            before = cached + prefilled / 2
            prefill = prefill.with_point(before, prefill_seconds / prefilled, prefilled)
        if generated > 0:
            before = cached + prefilled + generated / 2
            decode = decode.with_point(before, decode_seconds / generated, generated)
        return Timings(prefill, decode)


def carry_cost(timings: Timings) -> float | None:
    """What one more cached token costs a turn, in prefilled tokens, as far as timings tell.

    Each token that is generated reads it once, and each that is prefilled is compared with it: the
    seconds by which both get slower with each token before them, times how many there are in a
    turn, over the seconds of one prefilled token. None where no slowing can be told from chance;
    where it can for one of the two, the other counts as nothing.
    """
    prefill, decode = timings.prefill, timings.decode
    slowing = [
        slope * line.weight / line.points
        for line in (prefill, decode)
        if (slope := line.slope) is not None
    ]
    if not slowing or prefill.y <= 0:
        return None
    return min(sum(slowing) / prefill.y, _HIGHEST)
