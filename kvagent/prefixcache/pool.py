"""Which block does vLLM use next, and whose content is lost by that?

Free blocks stand in one queue. A freed block whose content is known by its hash goes to the end and
keeps it until it comes up again; one without goes to the front. Blocks without a hash have nothing
to lose, so they are not told apart here: they are a number.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable


class Block:
    """One block of the pool: the hash of its content, where it can be found, and its users."""

    __slots__ = ("content", "hash", "users")

    def __init__(self) -> None:
        self.users = 1
        self.content: Content | None = None
        self.hash = 0


class Content:
    """Where blocks of one kind of layers are found by the hash of their content.

    Equal content may lie in several blocks, as when two requests compute it at the same time;
    the oldest is found.
    """

    __slots__ = ("_first", "_more", "get")

    def __init__(self) -> None:
        self._first: dict[int, Block] = {}
        self._more: dict[int, list[Block]] = {}
        self.get = self._first.get

    def __len__(self) -> int:
        return len(self._first)

    def add(self, hash: int, block: Block) -> None:
        """Let ``block`` be found."""
        block.content, block.hash = self, hash
        if self._first.setdefault(hash, block) is not block:
            self._more.setdefault(hash, []).append(block)

    def remove(self, block: Block) -> None:
        """Forget what ``block`` holds."""
        block.content = None
        more = self._more.get(block.hash)
        if more is None:
            del self._first[block.hash]
            return
        if self._first[block.hash] is block:
            self._first[block.hash] = more.pop(0)
        else:
            more.remove(block)
        if not more:
            del self._more[block.hash]


class Pool:
    """``blocks`` blocks; without a number they never end and nothing is ever lost."""

    __slots__ = ("_empty", "_queue", "evicted")

    def __init__(self, blocks: int | None) -> None:
        self._empty = sys.maxsize if blocks is None else blocks
        # The free blocks with content, the next one to be used first.
        self._queue: OrderedDict[Block, None] = OrderedDict()
        self.evicted = 0
        """How many blocks with content were used again."""

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody uses; those with content among them."""
        return self._empty + len(self._queue)

    def take(self, count: int) -> list[Block]:
        """``count`` blocks without content; ``free_blocks`` says whether there are as many."""
        empty = min(count, self._empty)
        self._empty -= empty
        taken = [Block() for _ in range(empty)]
        for _ in range(count - empty):
            block, _ = self._queue.popitem(last=False)
            if block.content is not None:
                block.content.remove(block)
            block.users = 1
            self.evicted += 1
            taken.append(block)
        return taken

    def touch(self, blocks: Iterable[Block | None]) -> None:
        """One user more for each block, which leaves the queue."""
        queue = self._queue
        for block in blocks:
            if block is not None:
                if not block.users:
                    del queue[block]
                block.users += 1

    def free(self, blocks: Iterable[Block | None]) -> None:
        """One user less for each block; the first one that has none left is used again first."""
        queue = self._queue
        for block in blocks:
            if block is not None:
                block.users -= 1
                if not block.users:
                    if block.content is None:
                        self._empty += 1
                    else:
                        queue[block] = None

    def unused(self, blocks: Iterable[Block | None]) -> int:
        """How many of these stand in the queue."""
        return sum(block is not None and not block.users for block in blocks)
