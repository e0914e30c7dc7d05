"""Which further pieces tell most for the characters that they take?"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from heapq import heappop, heappush
from itertools import accumulate, compress, count
from operator import sub, truediv

from kvagent.shorten.identifiers import LINE_END, identifiers, weights_of, words_of
from kvagent.shorten.selection import Selection

_MISSES = 10  # so many pieces that do not fit: the room is as good as full
_AS_GOOD = 0.8  # of the best that may be left: not worth to look for a better one

# Less of its worth the higher it stands in the heap; and the piece.
_Entry = tuple[float, int]


class Density:
    """The pieces of a selection that do not stand yet, the most telling for their length first.

    A word counts only in the first piece that stands with it, so that each further piece adds
    something. `told` is what the pieces tell, a line each; the words of `known` count in none.
    """

    def __init__(
        self, selection: Selection, told: str, known: AbstractSet[str] = frozenset()
    ) -> None:
        self._selection = selection
        self._words = words = words_of(told)
        # Where the words of each piece begin, and one more for the end.
        self._begins = begins = [0]
        begins += [at for at, word in enumerate(words, 1) if word == LINE_END]
        self._weights = weights = weights_of(words)  # of the words that do not stand
        weights[LINE_END] = 0
        weights.update(dict.fromkeys(weights.keys() & known, 0))
        for piece in selection.kept():
            weights.update(dict.fromkeys(words[begins[piece] : begins[piece + 1]], 0))
        # An upper bound for each piece; its true density is worked out when it is its turn.
        sums = list(accumulate(map(weights.__getitem__, words), initial=0))
        until = list(map(sums.__getitem__, begins))
        self._bounds = list(map(sub, until[1:], until))
        dearest = map((1 + selection.gap).__add__, selection.sizes)
        self._densities = list(map(truediv, self._bounds, dearest))
        # The best last. Pieces that tell less than was thought, or more, are in the heap instead.
        some = compress(count(), self._bounds)
        self._rest = sorted(some, key=self._densities.__getitem__, reverse=True)[::-1]
        self._heap: list[_Entry] = []
        self._delays = 2 * len(self._rest)  # keeps the work linear, whatever the text

    def fill(self) -> bool:
        """Takes pieces until the room is full or none of them tells anything new.

        Gives whether there was any.
        """
        selection, stands, sizes = self._selection, self._selection.stands, self._selection.sizes
        heap, rest, densities = self._heap, self._rest, self._densities
        words, begins, weights = self._words, self._begins, self._weights
        weight = weights.__getitem__
        taken = False
        missed: list[_Entry] = []
        while (heap or rest) and len(missed) < _MISSES:
            if heap and (not rest or -heap[0][0] >= densities[rest[-1]]):
                piece = heappop(heap)[1]
            else:
                piece = rest.pop()
            if stands[piece]:
                continue
            distinct = set(words[begins[piece] : begins[piece + 1]])
            worth = sum(map(weight, distinct))
            if not worth:
                continue
            cost = selection.cost(piece) if selection.gap else sizes[piece]
            density = worth / cost if cost > 1 else worth
            limit = density / _AS_GOOD
            better = (rest and densities[rest[-1]] > limit) or (heap and -heap[0][0] > limit)
            if better and self._delays > 0:
                self._delays -= 1
                heappush(heap, (-density, piece))
            elif selection.take(piece, cost):
                taken = True
                weights.update(dict.fromkeys(distinct, 0))
                if selection.gap:
                    self._nearer(piece - 1)
                    self._nearer(piece + 1)
            else:
                missed.append((-density, piece))
        for entry in missed:
            heappush(heap, entry)
        return taken

    def left_out(self) -> Iterator[str]:
        """The identifiers that do not stand, those worth most for their length first."""
        return identifiers(self._weights)

    def _nearer(self, piece: int) -> None:
        """A neighbour of what stands needs no gap of its own any more: it has become cheaper."""
        if 0 <= piece < len(self._bounds) and not self._selection.stands[piece]:
            bound = self._bounds[piece]
            if bound:
                heappush(self._heap, (-bound / max(1, self._selection.cost(piece)), piece))
