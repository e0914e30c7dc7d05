"""Which blocks do the layers of one kind need for a hit, and which can they do without?

vLLM keeps a table of blocks for each group of layers. Layers with full attention need every block
of a prefix; those with a sliding window need only the last ones, so the others are freed while a
request runs, and only blocks that a later request can resume behind are kept under their hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

from kvagent.prefixcache.pool import Content


class Layers:
    """The groups of layers whose tokens see ``window`` tokens, None for all.

    Args:
        window: the number of tokens that a token sees, itself included.
        contents: where the blocks of each group are found.
        retention: vLLM's ``--prefix-cache-retention-interval``: of a sliding window, 0 keeps the
            blocks before the places where a prompt is known to be resumed, a number also those
            before each multiple of that many tokens, and None keeps all.
    """

    def __init__(
        self,
        window: int | None,
        contents: Sequence[Content],
        block_size: int,
        retention: int | None = 0,
    ) -> None:
        self.window = window
        self.contents = contents
        self._block_size = block_size
        self._retention = retention
        # What a hit must have before it, in blocks: the next token sees itself and window - 1 more.
        self._needed = 0 if window is None else -(-(window - 1) // block_size)
        alone = len(contents) == 1
        self._found: Callable[[int], object] = contents[0].get if alone else self._in_every_group

    def hit(self, hashes: Sequence[int], blocks: int) -> range:
        """The blocks of the longest hit of at most so many; those before them are not needed."""
        found = self._found
        if self.window is None:
            return range(sum(1 for _ in takewhile(found, hashes[:blocks])))
        run = 0
        for number in range(blocks - 1, -1, -1):
            run = run + 1 if found(hashes[number]) else 0
            if run and run >= self._needed:
                return range(number, number + run)
        return range(run)  # a prefix shorter than the window is a hit as well

    def _in_every_group(self, hash: int) -> bool:
        return all(content.get(hash) for content in self.contents)

    def passed(self, computed: int) -> int:
        """How many blocks no later token will see, once so many tokens are computed."""
        if self.window is None:
            return 0
        return max(0, computed - self.window + 1) // self._block_size

    def most(self, tokens: int, in_flight: int, max_model_len: int | None) -> int:
        """The most blocks that a group needs at a time for a prompt of so many tokens."""
        blocks = -(-tokens // self._block_size)
        if self.window is None:
            return blocks
        held = self.window - 1 + in_flight
        if max_model_len is not None:
            held = min(held, max_model_len)
        return min(blocks, -(-held // self._block_size) + 1)

    def left_out(self, start: int, end: int, boundaries: Iterable[int]) -> Iterable[int]:
        """Which of the blocks ``start`` to ``end`` will not be found by their hash.

        ``boundaries`` are the numbers of tokens behind which a later request may resume.
        """
        if self.window is None or self._retention is None:
            return ()
        left_out = set(range(start, end))
        if self._retention:
            segment = self._retention // self._block_size
            first = segment - self._needed
            left_out -= {number for number in left_out if number % segment >= first}
        for boundary in boundaries:
            last = boundary // self._block_size
            left_out.difference_update(range(last - self._needed, last))
        return left_out
