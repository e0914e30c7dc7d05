"""Which further pieces tell most for the characters that they take?"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from kvagent.shorten.identifiers import Vocabulary
from kvagent.shorten.selection import Selection

_MISSES = 100  # so many pieces in a row that do not fit: the room is as good as full


class Density:
    """The pieces of a selection that do not stand yet, the most telling for their length first.

    A name counts only in the first piece that stands with it, so that each further piece adds
    something: `covered` are the names that do.
    """

    def __init__(
        self, selection: Selection, spaced_lines: list[str], vocabulary: Vocabulary
    ) -> None:
        self._selection = selection
        self._lines = spaced_lines
        self._vocabulary = vocabulary
        self.covered: set[str] = set()
        for piece in selection.kept():
            self.covered |= vocabulary.names_in(spaced_lines[piece])
        # An upper bound for each piece; its true density is worked out when it is its turn.
        weight = vocabulary.weights.__getitem__
        bounds = [sum(map(weight, line.split())) for line in spaced_lines]
        self._heap = [
            (-bound / selection.dearest(piece), piece)
            for piece, bound in enumerate(bounds)
            if bound
        ]
        heapify(self._heap)
        self._delays = 2 * len(self._heap)  # keeps the work linear, whatever the text

    def fill(self) -> None:
        """Takes pieces until the room is full or none of them tells anything new."""
        selection = self._selection
        misses: list[tuple[float, int]] = []
        while self._heap and len(misses) < _MISSES:
            _, piece = heappop(self._heap)
            if piece in selection:
                continue
            entry = self._entry(piece)
            if entry is None:
                continue
            if self._heap and entry > self._heap[0]:
                self._delays -= 1
                if self._delays > 0:
                    heappush(self._heap, entry)
            elif selection.take(piece):
                self.covered |= self._vocabulary.names_in(self._lines[piece])
                self._nearer(piece - 1)
                self._nearer(piece + 1)
            else:
                misses.append(entry)
        for entry in misses:
            heappush(self._heap, entry)

    def _nearer(self, piece: int) -> None:
        """A neighbour of what stands needs no gap of its own any more: it has become cheaper."""
        if 0 <= piece < len(self._selection) and piece not in self._selection:
            entry = self._entry(piece)
            if entry is not None:
                heappush(self._heap, entry)

    def _entry(self, piece: int) -> tuple[float, int] | None:
        new = self._vocabulary.names_in(self._lines[piece]) - self.covered
        if not new:
            return None
        # Sums of floats depend on their order, and that of a set differs between processes.
        worth = sum(sorted(map(self._vocabulary.worth.__getitem__, new)))
        return -worth / max(1, self._selection.cost(piece)), piece
