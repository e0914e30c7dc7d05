"""Which further pieces tell most for the characters that they take?"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from kvagent.shorten.identifiers import Vocabulary
from kvagent.shorten.selection import Selection

_MISSES = 100  # so many pieces that do not fit: the room is as good as full

# Less of its worth the higher it stands in the heap; and the piece.
_Entry = tuple[float, int]


class Density:
    """The pieces of a selection that do not stand yet, the most telling for their length first.

    A name counts only in the first piece that stands with it, so that each further piece adds
    something. `covered` are the names in what stands.
    """

    def __init__(
        self, selection: Selection, spaced_lines: list[str], vocabulary: Vocabulary
    ) -> None:
        self.covered: set[str] = set()
        self._selection = selection
        self._lines = spaced_lines
        self._names = vocabulary.names
        self._weights = dict(vocabulary.weights)  # of the words that are not covered
        self._spellings: dict[str, list[str]] = {}
        for word, name in self._names.items():
            if word != name:
                self._spellings.setdefault(name, [name]).append(word)
        for piece in selection.kept():
            self._cover(piece)
        # An upper bound for each piece; its true density is worked out when it is its turn.
        weight = self._weights.__getitem__
        self._heap: list[_Entry] = []
        for piece, line in enumerate(spaced_lines):
            bound = sum(map(weight, line.split()))
            if bound:
                self._heap.append((-bound / selection.dearest(piece), piece))
        heapify(self._heap)
        self._delays = 2 * len(self._heap)  # keeps the work linear, whatever the text

    def fill(self) -> None:
        """Takes pieces until the room is full or none of them tells anything new."""
        selection = self._selection
        missed: list[_Entry] = []
        while self._heap and len(missed) < _MISSES:
            _, piece = heappop(self._heap)
            if piece in selection:
                continue
            entry = self._entry(piece)
            if entry is None:
                continue
            if self._heap and entry > self._heap[0] and self._delays > 0:
                self._delays -= 1
                heappush(self._heap, entry)
            elif selection.take(piece):
                self._cover(piece)
                self._nearer(piece - 1)
                self._nearer(piece + 1)
            else:
                missed.append(entry)
        for entry in missed:
            heappush(self._heap, entry)

    def _nearer(self, piece: int) -> None:
        """A neighbour of what stands needs no gap of its own any more: it has become cheaper."""
        if 0 <= piece < len(self._selection) and piece not in self._selection:
            entry = self._entry(piece)
            if entry is not None:
                heappush(self._heap, entry)

    def _entry(self, piece: int) -> _Entry | None:
        words = dict.fromkeys(self._lines[piece].split())
        worth = sum(map(self._weights.__getitem__, words))
        return (-worth / max(1, self._selection.cost(piece)), piece) if worth else None

    def _cover(self, piece: int) -> None:
        for word in self._lines[piece].split():
            name = self._names.get(word)
            if name is not None and name not in self.covered:
                self.covered.add(name)
                for spelling in self._spellings.get(name, (name,)):
                    if spelling in self._weights:
                        self._weights[spelling] = 0.0
