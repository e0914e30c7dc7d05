"""Where along a prompt does llama.cpp make checkpoints, and to which one can it roll back?

Sliding-window and recurrent layers cannot forget their last tokens one by one. So the server saves
their state at a few places, while it computes a prompt, and goes on from the newest usable one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state saved before token ``length`` was computed, with positions ``first`` to ``last``."""

    length: int
    first: int
    last: int
    request: int
    """The number of the request that made it."""
    window: Sequence[int]
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The server's ``--ctx-checkpoints``, ``--checkpoint-min-step`` and batch sizes."""

    limit: int = 32
    min_step: int = 8192
    n_batch: int = 2048
    n_ubatch: int = 512

    def next_stop(
        self, start: int, length: int, user_starts: Sequence[int], made: Sequence[Checkpoint]
    ) -> int:
        """Where the batch that begins at ``start`` ends: a checkpoint can only be made between batches."""
        stops = [start + self.n_batch, length]
        stops += [length - min(self.n_batch, near) for near in (4 + self.n_ubatch, 4)]
        stops += [
            turn
            for turn in user_starts
            if turn == user_starts[-1] or not made or turn > made[-1].length + self.min_step
        ]
        return min(stop for stop in stops if stop > start)

    def wanted(
        self,
        start: int,
        stop: int,
        length: int,
        user_starts: Sequence[int],
        made: Sequence[Checkpoint],
    ) -> bool:
        """Whether one is made at ``start``, before the batch up to ``stop`` of a prompt of ``length``."""
        near_end = length < stop + self.n_ubatch
        if stop < length and start not in user_starts and not near_end:
            return False
        at_last_turn = bool(user_starts) and start == user_starts[-1]
        apart = not made or start > made[-1].length + self.min_step
        return near_end or at_last_turn or apart

    def with_one_more(self, made: Sequence[Checkpoint], new: Checkpoint) -> list[Checkpoint]:
        """The list with ``new``. A full one first loses those that lie close together, then the oldest."""
        kept: list[Checkpoint] = []
        left = len(made)
        for old in made:
            close = bool(kept) and old.length <= kept[-1].length + self.min_step
            if left + 1 >= self.limit and old.request != new.request and close:
                left -= 1
            else:
                kept.append(old)
        kept = kept[max(0, len(kept) - self.limit + 1) :]
        return [*(old for old in kept if old.length != new.length), new]


def usable(made: Sequence[Checkpoint], length: int, needed: int) -> Checkpoint | None:
    """The newest that does not reach beyond ``length`` and whose state begins before ``needed``."""
    for checkpoint in reversed(made):
        if checkpoint.last <= length and (checkpoint.first < needed or checkpoint.first == 0):
            return checkpoint
    return None
