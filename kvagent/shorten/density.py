"""Which further pieces tell most for the characters that they take?"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from kvagent.shorten.identifiers import Vocabulary
from kvagent.shorten.selection import Selection

_MISSES = 30  # so many pieces that do not fit: the room is as good as full

# Less of its worth the higher it stands in the heap; and the piece.
_Entry = tuple[float, int]


class Density:
    """The pieces of a selection that do not stand yet, the most telling for their length first.

    A name counts only in the first piece that stands with it, so that each further piece adds
    something.
    """

    def __init__(
        self, selection: Selection, spaced_lines: list[str], vocabulary: Vocabulary
    ) -> None:
        self._selection = selection
        self._words = [line.split() for line in spaced_lines]
        self._vocabulary = vocabulary
        self._weights = dict(vocabulary.weights)  # of the words that do not stand
        for piece in selection.kept():
            self._cover(piece)
        # An upper bound for each piece; its true density is worked out when it is its turn.
        weight = self._weights.__getitem__
        bounds = [sum(map(weight, words)) for words in self._words]
        self._heap: list[_Entry] = [
            (-bound / dearest, piece)
            for piece, (bound, dearest) in enumerate(zip(bounds, selection.dearest(), strict=True))
            if bound
        ]
        heapify(self._heap)
        self._delays = 2 * len(self._heap)  # keeps the work linear, whatever the text

    def fill(self) -> bool:
        """Takes pieces until the room is full or none of them tells anything new.

        Gives whether there was any.
        """
        selection, heap = self._selection, self._heap
        taken = False
        missed: list[_Entry] = []
        while heap and len(missed) < _MISSES:
            _, piece = heappop(heap)
            if piece in selection:
                continue
            entry = self._entry(piece)
            if entry is None:
                continue
            if heap and entry > heap[0] and self._delays > 0:
                self._delays -= 1
                heappush(heap, entry)
            elif selection.take(piece):
                taken = True
                self._cover(piece)
                self._nearer(piece - 1)
                self._nearer(piece + 1)
            else:
                missed.append(entry)
        for entry in missed:
            heappush(heap, entry)
        return taken

    def left_out(self) -> Iterator[str]:
        """The identifiers that do not stand, those worth most first."""
        names, weights, spellings = (
            self._vocabulary.names,
            self._weights,
            self._vocabulary.spellings,
        )
        for name in self._vocabulary.identifiers:
            word = spellings[name][0] if name not in weights or name in names else name
            if weights[word]:
                yield name

    def _nearer(self, piece: int) -> None:
        """A neighbour of what stands needs no gap of its own any more: it has become cheaper."""
        selection = self._selection
        if selection.gap and 0 <= piece < len(selection) and piece not in selection:
            entry = self._entry(piece)
            if entry is not None:
                heappush(self._heap, entry)

    def _entry(self, piece: int) -> _Entry | None:
        worth = sum(map(self._weights.__getitem__, set(self._words[piece])))
        return (-worth / max(1, self._selection.cost(piece)), piece) if worth else None

    def _cover(self, piece: int) -> None:
        weights, names = self._weights, self._vocabulary.names
        for word in self._words[piece]:
            if weights[word]:
                weights[word] = 0
                name = names.get(word)
                if name is not None:
                    for spelling in self._vocabulary.spellings[name]:
                        weights[spelling] = 0
