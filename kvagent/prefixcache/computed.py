"""How much of this prompt was computed before, at any time, exact to the token?

What a cache without an end would give. It holds four bytes for each token ever computed, once for
all prompts that share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

# Bytes of a token: blocks are hashed and compared as they lie in memory, not number by number.
_WIDTH = 4


class Computed:
    """Remembers token sequences as chains of blocks; the hashes of full blocks are the caller's.

    Tokens are ``packed``. Without ``exact`` it remembers full blocks only.
    """

    def __init__(self, block_size: int, *, exact: bool = True) -> None:
        self._block_size = block_size
        self._exact = exact
        # By the hash of what goes before, which is known as far as it is a key: the tokens that
        # followed there, up to the end of their block. Mostly that is one block, or none yet.
        self._after: dict[int, bytes | _Branching] = {}

    def shared(self, data: bytes, hashes: Sequence[int], root: int, known: int = 0) -> int:
        """How many tokens the longest beginning has that was computed.

        ``root`` stands before the first block. The first ``known`` blocks need no look: ``data``
        are the tokens behind them.
        """
        at, size = 0, self._block_size * _WIDTH
        while known < len(hashes) and hashes[known] in self._after:
            known, at = known + 1, at + size
        start, rest = known * self._block_size, data[at : at + size]
        after = self._after.get(hashes[known - 1] if known else root)
        if not rest or not after:
            return start
        others = (after,) if isinstance(after, bytes) else after.get(rest[:_WIDTH], ())
        return start + max((_common(rest, other) for other in others), default=0)

    def add(self, data: bytes, hashes: Sequence[int], root: int, known: int = 0) -> None:
        """These were computed. ``data`` are those behind the first ``known`` blocks."""
        after, size = self._after, self._block_size * _WIDTH
        if not self._exact:
            after.update(dict.fromkeys(hashes[known:], b""))
            return
        before, start = hashes[known - 1] if known else root, 0
        for block in (*hashes[known:], 0):
            follows = data[start : start + size]
            held = after.get(before)
            if held is None:
                after[before] = follows
            elif follows and held != follows:
                after[before] = _with(held, follows)
            before, start = block, start + size


_Branching = dict[bytes, tuple[bytes, ...]]
"""By their first token: several that followed at one place, none of which begins another."""


def _with(held: bytes | _Branching, follows: bytes) -> bytes | _Branching:
    """What followed, and what follows now."""
    if isinstance(held, bytes):
        if follows.startswith(held):
            return follows
        if held.startswith(follows):
            return held
        held = {held[:_WIDTH]: (held,)}
    others = held.get(follows[:_WIDTH], ())
    if not any(other.startswith(follows) for other in others):
        kept = (other for other in others if not follows.startswith(other))
        held[follows[:_WIDTH]] = (*kept, follows)
    return held


def packed(tokens: Iterable[int]) -> bytes:
    """Token ids as they are hashed and compared."""
    if isinstance(tokens, array) and tokens.typecode in "iI" and tokens.itemsize == _WIDTH:
        return tokens.tobytes()
    return array("I", tokens).tobytes()


def chained(data: bytes, block_size: int, before: int) -> list[int]:
    """The hashes of the full blocks, each over all that goes before."""
    size = block_size * _WIDTH
    hashes = []
    for at in range(0, len(data) - size + 1, size):
        before = hash((before, data[at : at + size]))
        hashes.append(before)
    return hashes


def behind(data: bytes, tokens: int) -> bytes:
    """What comes after so many tokens."""
    return data[tokens * _WIDTH :]


def _common(one: bytes, other: bytes) -> int:
    """How many tokens are the same: the lowest bit that differs says it."""
    size = min(len(one), len(other))
    differing = int.from_bytes(one[:size], "little") ^ int.from_bytes(other[:size], "little")
    lowest = (differing & -differing).bit_length() - 1
    return lowest // (8 * _WIDTH) if differing else size // _WIDTH
