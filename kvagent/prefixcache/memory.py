"""What of each slot's tokens is in llama.cpp's memory, and what does it take to save that?

Layers with full attention keep every token. Sliding ones keep a window (``cells``), recurrent ones
only the state after the last token. What is not kept cannot be rolled back to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvagent.prefixcache.cells import Cells, window_cells


@dataclass(frozen=True, slots=True)
class Layout:
    """A model's layers, as far as caching depends on them.

    ``row`` and ``window_row`` are bytes of K and V of one token in all full and all sliding layers
    together; what a saved state takes follows from them to the byte.
    """

    row: int = 0
    full: int = 0
    """Layers with full attention."""
    window: int = 0
    """Tokens in the window of the sliding layers; 0 where there are none."""
    window_row: int = 0
    sliding: int = 0
    """Layers with a sliding window."""
    recurrent: int = 0
    """Layers with a state instead of a cache."""
    state: int = 0
    """Bytes of the recurrent layers' state of one sequence, all layers together."""

    def saved(self, cells: int, window_cells: int, streams: int) -> int:
        """Bytes of a saved state of ``cells`` tokens in the full layers and ``window_cells`` in the sliding."""
        size = 8  # a magic number and the sequence's
        if self.full or not self.recurrent:
            size += _cache_bytes(cells, self.full, self.row, streams)
        return size + self.partial(window_cells, streams) - 8

    def partial(self, window_cells: int, streams: int) -> int:
        """Bytes of a checkpoint: what cannot be rolled back, and nothing of the full layers."""
        size = 8
        if self.window:
            size += _cache_bytes(window_cells, self.sliding, self.window_row, streams)
        if self.recurrent:
            size += 4 + 8 + 8 + 24 * self.recurrent + self.state
        return size


def _cache_bytes(cells: int, layers: int, row: int, streams: int) -> int:
    """A KV cache's part: streams and their lengths, and where there are cells, each with its position."""
    return 4 + 4 * streams + (16 + 24 * layers + cells * (12 + row) if cells else 0)


class Memory:
    """The memory under ``slots`` sequences; with ``unified`` they share ``n_ctx`` cells.

    ``swa_full`` gives the sliding layers as many cells as the full ones.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        slots: int,
        n_ctx: int,
        unified: bool,
        n_ubatch: int,
        swa_full: bool = False,
    ) -> None:
        self.layout = layout
        self._n_ubatch = n_ubatch
        self._streams = 1 if unified else slots
        self._room = n_ctx if unified else n_ctx * slots
        self._lengths = [0] * slots
        self._window: Cells | None = None
        self.can_shift = not layout.recurrent
        """Whether tokens can move to other positions: not where a memory has fewer cells than others."""
        if layout.window:
            size = window_cells(n_ctx, layout.window, slots if unified else 1, n_ubatch)
            size = n_ctx if swa_full else size
            self._window = Cells(size, self._streams, layout.window)
            self.can_shift = size == n_ctx

    def first(self, slot: int) -> int:
        """The lowest position to which the slot can be rolled back; -1 if it is empty."""
        if self.layout.recurrent:
            return self._lengths[slot] - 1
        if self._window:
            return self._window.first(slot)
        return 0 if self._lengths[slot] else -1

    def last(self, slot: int) -> int:
        """The highest position in the slot; -1 if it is empty."""
        return self._window.last(slot) if self._window else self._lengths[slot] - 1

    def keep(self, slot: int, length: int) -> None:
        """Let the slot have no more than its first ``length`` tokens."""
        self._lengths[slot] = min(self._lengths[slot], length)
        if self._window:
            self._window.keep(slot, length)

    def shift(self, slot: int, source: int, count: int, target: int) -> None:
        """Move ``count`` tokens from position ``source`` to ``target``, over what is there."""
        if self._window and source != target:
            self._window.shift(slot, source, count, target)

    def fits(self, tokens: int) -> bool:
        """Whether so many more tokens find room."""
        states_only = self.layout.recurrent and not self.layout.full
        return bool(states_only) or sum(self._lengths) + tokens <= self._room

    def add(self, slot: int, length: int, *, at_once: int | None = None) -> None:
        """Let the slot have ``length`` tokens, ``at_once`` of them in a batch (None: as configured)."""
        start, self._lengths[slot] = self._lengths[slot], length
        if self._window:
            step = at_once or self._n_ubatch
            for first in range(start, length, step):
                self._window.place(slot, range(first, min(first + step, length)))

    def save(self, slot: int) -> tuple[Any, int]:
        """The slot's state, for ``restore``, and its size in bytes."""
        window = self._window.saved(slot) if self._window else []
        size = self.layout.saved(self._lengths[slot], len(window), self._streams)
        return (self._lengths[slot], window), size

    def restore(self, slot: int, state: Any) -> bool:
        """Put a saved state in the place of what the slot has; False, and empty, if there is no room."""
        length, window = state
        self.keep(slot, 0)
        if not self.fits(length):
            return False
        self._lengths[slot] = length
        return not self._window or self._window.restore(slot, window)

    def checkpoint(self, slot: int) -> tuple[Sequence[int], int]:
        """The part of the slot's state that cannot be rolled back, and its size in bytes."""
        window = self._window.saved(slot) if self._window else []
        return window, self.layout.partial(len(window), self._streams)

    def roll_back(self, slot: int, window: Sequence[int], length: int) -> None:
        """Put a checkpoint's part back; the slot's length becomes ``length``."""
        if self._window:
            self._window.restore(slot, window)
        self._lengths[slot] = length
