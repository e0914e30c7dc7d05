"""Which positions of each sequence are still in llama.cpp's memory of sliding-window layers?

Tokens lie in cells, in the order in which they found room. A cell whose token has left the window
of its sequence is free for anyone, so what is left of a sequence depends on where others wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

_PAD = 256


def window_cells(n_ctx: int, window: int, sequences: int, n_ubatch: int) -> int:
    """How many cells a stream has for ``sequences`` windows: padded, and no more than ``n_ctx``."""
    return -(-min(n_ctx, window * sequences + n_ubatch) // _PAD) * _PAD


class Cells:
    """Cells in ``streams`` (one for all sequences, or one for each) of ``size``, for ``window`` tokens."""

    def __init__(self, size: int, streams: int, window: int) -> None:
        self._window = window
        self._cells: list[list[tuple[int, int] | None]] = [[None] * size for _ in range(streams)]
        self._heads = [0] * streams
        self._used = [0] * streams
        self._where: dict[int, dict[int, int]] = {}  # sequence → position → cell
        self._bounds: dict[int, tuple[int, int]] = {}  # sequence → its first and last position

    def first(self, sequence: int) -> int:
        """The lowest position that is there, -1 if none is."""
        return self._bounds.get(sequence, (-1, -1))[0]

    def last(self, sequence: int) -> int:
        """The highest position that is there, -1 if none is."""
        return self._bounds.get(sequence, (-1, -1))[1]

    def keep(self, sequence: int, length: int) -> None:
        """Free the positions from ``length`` on."""
        start = max(length, self.first(sequence))
        self._free(sequence, range(start, self.last(sequence) + 1))

    def shift(self, sequence: int, source: int, count: int, target: int) -> None:
        """Move ``count`` positions from ``source`` on to ``target``, which is below; what was between is freed."""
        where = self._where[sequence]
        self._free(sequence, range(target, source))
        stream = self._stream(sequence)
        for position in range(source, source + count):
            cell = where.pop(position, None)
            if cell is not None:
                moved = position - source + target
                where[moved] = cell
                self._cells[stream][cell] = sequence, moved
        self._bounds[sequence] = min(where), max(where)
        self._heads[stream] = 0

    def place(self, sequence: int, positions: Sequence[int]) -> bool:
        """Find cells for one batch of tokens and take them; False if there is no room."""
        found = self._find(sequence, len(positions))
        if found is None:
            return False
        stream = self._stream(sequence)
        cells = self._cells[stream]
        overwritten: dict[int, int] = {}
        for cell, position in zip(found, positions, strict=True):
            held = cells[cell]
            if held is None:
                self._used[stream] += 1
            else:
                owner, old = held
                overwritten[owner] = max(overwritten.get(owner, -1), old)
                del self._where[owner][old]
            cells[cell] = sequence, position
            self._where.setdefault(sequence, {})[position] = cell
        first, last = self._bounds.get(sequence, (positions[0], -1))
        self._bounds[sequence] = min(first, *positions), max(last, *positions)
        # What is left of a sequence has no holes: all below what was overwritten goes too.
        for owner, until in overwritten.items():
            self._free(owner, range(self.first(owner), until + 1))
        self._heads[stream] = found[-1] + 1
        return True

    def saved(self, sequence: int) -> list[int]:
        """The positions that a saved state holds: those in the window, in the order of their cells."""
        where = self._where.get(sequence, {})
        last = self.last(sequence)
        in_window = [position for position in where if last - position < self._window]
        return sorted(in_window, key=where.__getitem__)

    def restore(self, sequence: int, positions: Sequence[int]) -> bool:
        """Put a saved state in the place of what the sequence has."""
        self.keep(sequence, 0)
        return not positions or self.place(sequence, positions)

    def _stream(self, sequence: int) -> int:
        return sequence if len(self._cells) > 1 else 0

    def _find(self, sequence: int, count: int) -> list[int] | None:
        stream = self._stream(sequence)
        cells = self._cells[stream]
        head = self._heads[stream]
        if head > self._used[stream] + 2 * count:
            head = 0
        ends = {owner: last + 1 for owner, (_, last) in self._bounds.items()}
        found: list[int] = []
        for cell in chain(range(head, len(cells)), range(head)):
            held = cells[cell]
            if held is None or ends[held[0]] - held[1] >= self._window:
                found.append(cell)
                if len(found) == count:
                    return found
        return None

    def _free(self, sequence: int, positions: range) -> None:
        """Free what there is of ``positions``, which reach one end of what is there, or neither."""
        if not positions:
            return
        stream = self._stream(sequence)
        where = self._where[sequence]
        freed = [where.pop(position) for position in positions if position in where]
        for cell in freed:
            self._cells[stream][cell] = None
        self._used[stream] -= len(freed)
        self._heads[stream] = min([self._heads[stream], *freed])
        first, last = self._bounds[sequence]
        if not where:
            del self._bounds[sequence]
        elif first in positions or last in positions:
            first = positions.stop if first in positions else first
            last = positions.start - 1 if last in positions else last
            self._bounds[sequence] = first, last
