"""How much of this prompt was computed before, at any time, exact to the token?

What a cache without an end would give. It holds four bytes for each token ever computed, once for
all prompts that share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence


class Computed:
    """Remembers token sequences as chains of blocks; the hashes of full blocks are the caller's.

    Without ``exact`` it remembers full blocks only.
    """

    def __init__(self, block_size: int, *, exact: bool = True) -> None:
        self._block_size = block_size
        self._exact = exact
        self._known: set[int] = set()
        # By the hash of what goes before and the next token: the tokens that followed there, up to
        # the end of their block. None of them begins another.
        self._after: dict[int, list[bytes]] = {}

    def shared(
        self, tokens: Sequence[int], hashes: Sequence[int], root: int, known: int = 0
    ) -> int:
        """The longest beginning of ``tokens`` that was computed.

        ``root`` stands before the first block; the first ``known`` blocks need no look.
        """
        known_hashes = self._known
        for number in range(known, len(hashes)):
            if hashes[number] not in known_hashes:
                break
            known += 1
        start = known * self._block_size
        rest = tokens[start : start + self._block_size]
        if not self._exact or not len(rest):
            return start
        before = hashes[known - 1] if known else root
        after = self._after.get(hash_pair(before, rest[0]))
        if after is None:
            return start
        data = array("I", rest).tobytes()
        return start + max(_common(data, other) for other in after)

    def add(self, tokens: Sequence[int], hashes: Sequence[int], root: int, known: int = 0) -> None:
        """These were computed. ``tokens`` are those behind the first ``known`` blocks."""
        if not self._exact:
            self._known.update(hashes[known:])
            return
        for number in range(known, len(hashes) + 1):
            before = hashes[number - 1] if number else root
            if number:
                self._known.add(before)
            start = (number - known) * self._block_size
            if start < len(tokens):
                self._follow(before, tokens[start : start + self._block_size])

    def _follow(self, before: int, tokens: Sequence[int]) -> None:
        data = array("I", tokens).tobytes()
        after = self._after.setdefault(hash_pair(before, tokens[0]), [data])
        if not any(other.startswith(data) for other in after):
            after[:] = [other for other in after if not data.startswith(other)]
            after.append(data)


def hash_pair(before: int, after: object) -> int:
    """One link of a chain."""
    return hash((before, after))


def _common(one: bytes, other: bytes) -> int:
    """How many tokens of four bytes are the same: the lowest bit that differs says it."""
    size = min(len(one), len(other))
    differing = int.from_bytes(one[:size], "little") ^ int.from_bytes(other[:size], "little")
    return ((differing & -differing).bit_length() - 1) // 32 if differing else size // 4
