"""Which block does vLLM use next, and whose content is lost by that?

Blocks have numbers from 1 on; 0 stands for none. Free blocks wait in one queue: a block that was
freed with content goes to its end and keeps the content until it comes up, one without goes to the
front. As the latter have nothing to lose, they are kept apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

Table = list[int]
"""The blocks of a request in the order of their tokens; 0 where a window has passed."""


class Content:
    """Where the blocks of one group of layers are found by the hash of what they hold.

    Equal content may lie in several blocks, as when two requests compute it at the same time; the
    oldest is found.
    """

    __slots__ = ("_first", "_more", "at", "get")

    def __init__(self) -> None:
        self._first: dict[int, int] = {}
        self._more: dict[int, list[int]] = {}
        self.get = self._first.get
        self.at = self._first.__getitem__

    def add(self, hash: int, block: int) -> None:
        """Let ``block`` be found."""
        if self._first.setdefault(hash, block) != block:
            self._more.setdefault(hash, []).append(block)

    def remove(self, hash: int, block: int) -> None:
        """Let it not be found any more."""
        more = self._more.get(hash)
        if more is None:
            del self._first[hash]
            return
        if self._first[hash] == block:
            self._first[hash] = more.pop(0)
        else:
            more.remove(block)
        if not more:
            del self._more[hash]


class Pool:
    """``blocks`` blocks; with None they never end, and nothing is ever lost."""

    def __init__(self, blocks: int | None) -> None:
        self._blocks = blocks
        self._made = 0  # blocks with a higher number were never used
        self._empty: list[int] = []  # freed without content, the last one is used first
        self._queue: OrderedDict[int, None] = OrderedDict()  # freed with content
        # By block.
        self._users = [0]
        self._held: list[Content | None] = [None]  # where its content is found,
        self._hash = [0]  # and by which hash

    def has(self, count: int) -> bool:
        """Whether so many blocks can be taken."""
        if self._blocks is None:
            return True
        return count <= self._blocks - self._made + len(self._empty) + len(self._queue)

    def take(self, count: int) -> Table:
        """``count`` blocks without content, for one user; ``has`` says whether there are as many."""
        if self._blocks is None:
            self._made += count
            return list(range(self._made - count + 1, self._made + 1))
        taken = [self._empty.pop() for _ in range(min(count, len(self._empty)))]
        new = min(count - len(taken), self._blocks - self._made)
        taken += range(self._made + 1, self._made + new + 1)
        self._made += new
        self._users += [0] * new
        self._held += [None] * new
        self._hash += [0] * new
        while len(taken) < count:
            block, _ = self._queue.popitem(last=False)
            content = self._held[block]
            if content is not None:
                content.remove(self._hash[block], block)
                self._held[block] = None
            taken.append(block)
        for block in taken:
            self._users[block] = 1
        return taken

    def offer(self, content: Content, hashes: Sequence[int], blocks: Sequence[int]) -> None:
        """Let later requests find these blocks; from now on they have something to lose."""
        add, held, hash_of = content.add, self._held, self._hash
        endless = self._blocks is None
        for key, block in zip(hashes, blocks, strict=True):
            if block:
                add(key, block)
                if not endless:
                    held[block], hash_of[block] = content, key

    def touch(self, blocks: Iterable[int]) -> None:
        """One user more for each block, which leaves the queue."""
        if self._blocks is None:
            return
        users, queue = self._users, self._queue
        for block in blocks:
            if block:
                if not users[block]:
                    del queue[block]
                users[block] += 1

    def free(self, blocks: Iterable[int]) -> None:
        """One user less for each block; of those that have none left, the first is used first."""
        if self._blocks is None:
            return
        users, held, queue = self._users, self._held, self._queue
        empty = []
        for block in blocks:
            if block:
                users[block] -= 1
                if not users[block]:
                    if held[block] is None:
                        empty.append(block)
                    else:
                        queue[block] = None
        self._empty += reversed(empty)

    def unused(self, blocks: Iterable[int]) -> int:
        """How many of these stand in the queue."""
        if self._blocks is None:
            return 0
        users = self._users
        return sum(block != 0 and not users[block] for block in blocks)
