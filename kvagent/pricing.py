"""When does it pay to clear old tool results, and from which on?

The unit is the prefill of one uncached token. Whatever is carried in the prompt costs ``carry`` of
it for each token and turn: attention reads it again for every token that is generated. An edit that
takes tokens out saves that rent from then on, and costs the prefill of what is cached behind it, of
which the rent of one turn is spared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Layer:
    """Old texts that are cleared together or not at all: some that follow each other."""

    number: int
    """Of the first of them, among all messages."""
    place: int
    """Tokens in front of it."""
    removable: int
    """Tokens that clearing them would free."""
    rent: float = 0.0
    """What they have cost since they could have been cleared, in prefilled tokens."""

    def joined(self, behind: Layer) -> Layer:
        """This layer and one behind it as one."""
        return replace(
            self, removable=self.removable + behind.removable, rent=self.rent + behind.rent
        )


@dataclass(frozen=True, slots=True)
class Rent:
    """What a conversation carries from turn to turn, to decide when to clear."""

    turns: int = 0
    """Turns that were priced before."""
    layers: tuple[Layer, ...] = ()
    """What could be removed, from the front on."""
    left_out: bool = False
    """Whether the first layer is what batches have left out."""

    def __post_init__(self) -> None:
        made = (Layer(**each) if isinstance(each, Mapping) else each for each in self.layers)
        object.__setattr__(self, "layers", tuple(made))  # as it is read from JSON

    @property
    def turns_left(self) -> float:
        """The turns to reckon with, this one included: two to one that there are as many."""
        return self.turns_at(odds=2)

    def turns_at(self, odds: float) -> float:
        """This turn, and as many more as there are with such odds.

        Nothing tells how long a conversation will be. If no order of magnitude is likelier than
        another, and the turn at hand may be any of its turns, then one that is in its turn t goes
        on for x more with a chance of (t - ½) / (t - ½ + x): even for its age, two to one for half
        of it.
        """
        return 1 + max(0.0, self.turns - 0.5) / odds

    def settled(self, number: int = 0, remaining: int | None = None) -> Rent:
        """The rent after a batch was made, for whatever reason, of all from a message on.

        What lies before it was left out.

        Args:
            remaining: tokens that could be removed still, where that is known.
        """
        left = [layer for layer in self.layers if layer.number < number]
        while len(left) > 1:
            left[-2:] = [left[-2].joined(left[-1])]
        if remaining is not None:
            cleared = [replace(each, rent=0.0) for each in self.layers if each.number == number]
            left = [replace(each, removable=remaining) for each in (left or cleared) if remaining]
        return replace(self, layers=tuple(left), left_out=bool(left))

    def corrected(self, number: int, removable: int) -> Rent:
        """The rent where it has been found out how much a batch from a message on would free."""
        expected = sum(each.removable for each in self.layers if each.number >= number)
        share = removable / expected if expected else 0.0
        layers = (
            each if each.number < number else replace(each, removable=int(share * each.removable))
            for each in self.layers
        )
        return replace(self, layers=tuple(layers))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Clearing all layers from one on."""

    number: int
    freed: int
    fresh: int
    """Of these tokens, those that were not left out before."""
    paid: float
    """Rent paid for all that it frees."""
    brought: float
    """What bringing in those left out before is worth."""
    behind: int
    """Cached tokens that are prefilled anew."""

    def worth(self, carry: float, turns: float) -> float:
        """What it saves in so many turns, in prefilled tokens."""
        return self.brought + worth(self.fresh, self.behind, carry, turns)


def due(
    rent: Rent,
    *,
    fresh: Iterable[Layer] = (),
    cached: int,
    kept: int,
    carry: float | None,
    least: int = 0,
) -> tuple[Rent, int | None]:
    """The rent with this turn in it, and from which message on to clear before this turn is sent.

    That is None where nothing is due. Ask once a turn, and take ``settled(number)`` of the rent
    when a batch was made.

    *From where on?* Each layer more frees its tokens, and has what lies between it and the next
    prefilled anew. A long text between is a reason to leave out what stands in front of it: where
    the odds are even that its rent will not be as much. What was left out comes along once the
    rent paid for it and what it would still save make up its part of the price.

    A batch must pass two more questions. *Is it time?* What stays in front of the kept tail is
    prefilled anew by one batch only, now or later, but the tail by every batch: so wait until the
    rent paid has reached the price of the tail. That is the period at which rent and prices
    together are least if the conversation goes on as it is, and it takes the moments at which the
    tail is small. *Will it pay?* In the turns to reckon with, what it frees must save the whole
    price. Where the rent paid has reached the whole price, it was worth it already: waiting any
    longer could cost more than twice what is best, whatever comes.

    Args:
        rent: what the last turn gave, ``Rent()`` at first.
        fresh: what can be cleared since, from the front on; all behind what could be before.
        cached: tokens of the prompt that the server has.
        kept: of these, the tail that stays as it is: from the first result on that a batch spares.
        carry: what a token costs a turn, in prefilled tokens; None: not known, so never due.
        least: tokens that a batch has to free.
    """
    now = replace(rent, turns=rent.turns + 1, layers=_layered(rent, fresh))
    if carry is None:
        return now, None
    paid = (replace(each, rent=each.rent + carry * each.removable) for each in now.layers)
    now = replace(now, layers=tuple(paid))
    batches = [each for each in _batches(now, cached, carry) if each.freed >= max(1, least)]
    if not batches:
        return now, None
    even = now.turns_at(odds=1)
    batch = max(batches, key=lambda each: each.worth(carry, even))
    price, again = _price(batch.behind, carry), _price(min(kept, batch.behind), carry)
    in_time = batch.paid >= again
    pays = batch.worth(carry, now.turns_left) >= 0 or batch.paid >= price
    return now, batch.number if in_time and pays else None


def _layered(rent: Rent, fresh: Iterable[Layer]) -> tuple[Layer, ...]:
    """All layers, of which each frees less for what lies behind it than the next.

    Where a layer frees more, nothing would ever be cleared from the next one on: they are one.
    """
    layers, first = list(rent.layers), int(rent.left_out)
    for layer in fresh:
        if layer.removable <= 0:
            continue
        while len(layers) - first > 1:
            one, two = layers[-2:]
            between = two.place - one.place - one.removable
            behind = layer.place - two.place - two.removable
            if one.removable * behind < two.removable * between:
                break
            layers[-2:] = [one.joined(two)]
        layers.append(layer)
    return tuple(layers)


def _batches(rent: Rent, cached: int, carry: float) -> list[_Batch]:
    """What could be cleared, from the last layer on first."""
    found: list[_Batch] = []
    freed, paid = 0, 0.0
    for number in range(len(rent.layers) - 1, -1, -1):
        layer = rent.layers[number]
        fresh, brought = freed + layer.removable, 0.0
        freed, paid = fresh, paid + layer.rent
        if rent.left_out and number == 0:
            fresh -= layer.removable
            brought = layer.rent + worth(layer.removable, 0, carry, rent.turns_left)
        behind = max(0, cached - layer.place - freed)
        found.append(_Batch(layer.number, freed, fresh, paid, brought, behind))
    return found


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
