"""What does llama.cpp reserve for its slots?

All of it when it starts: cells for every token of every slot's context, fewer in layers with a
window, and the states of recurrent layers. One cell is one token in one layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from kvagent.kvmemory.geometry import Attention, Geometry, Indexer, State
from kvagent.kvmemory.memory import Storage, token_bytes

UBATCH = 512
"""Tokens that are computed at a time, ``--ubatch-size``."""

_CELLS = 256  # the number of cells is a multiple of this
_STATE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Reserve:
    """Cells and bytes of a server with so many slots."""

    slots: int
    cells: int
    """Of each slot, in layers that see everything; of all slots together where they share a pool."""
    window_cells: int | None
    """The same in layers with a window, None where there are none."""
    bytes: int


def reserve(
    geometry: Geometry,
    context: int,
    slots: int,
    storage: Storage,
    *,
    unified: bool = False,
    ubatch: int = UBATCH,
) -> Reserve:
    """What a server reserves whose slots have ``context`` tokens each.

    Args:
        geometry: the model.
        context: tokens of one slot: ``--ctx-size`` divided by ``--parallel``.
        slots: ``--parallel``.
        storage: the types of keys and values; tensor parallelism is vLLM's and is left aside.
        unified: all slots share one pool (``--kv-unified``) of the same total.
        ubatch: ``--ubatch-size``.
    """
    storage = Storage(storage.types)
    pools = 1 if unified else slots
    cells = _padded(context * slots // pools)
    total = Fraction(0)
    window_cells = None
    for group in geometry.layers:
        layer = group.layer
        if isinstance(layer, State):
            total += group.count * slots * (layer.conv + layer.recurrent) * _STATE_BYTES
            continue
        held = cells
        if isinstance(layer, Attention) and layer.window is not None:
            held = window_cells = _padded(min(cells, layer.window * slots // pools + ubatch))
        size = token_bytes(layer, storage)
        if isinstance(layer, Indexer):
            size = storage.types.key.vector(layer.dim)
        total += group.count * held * pools * size
    return Reserve(slots, cells, window_cells, ceil(total))


def _padded(tokens: int) -> int:
    return -(-tokens // _CELLS) * _CELLS
