"""Which ids does a SentencePiece vocabulary with scores give to a text without special tokens?

Neighbours are merged as long as what they make is a token: the best score first, of equal ones the
leftmost. (The tokenizers library merges by rank; where one token can be made of several pairs, that
is not the same.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush

from kvagent.tokens.tokenizer import TokenizerError

SPACE = "\u2581"
"""Stands for a blank in the tokens of such a vocabulary."""

_REMEMBERED = 1 << 16


class SentencePiece:
    """Merges by score.

    Args:
        vocabulary: token → id, with `SPACE` for blanks.
        scores: of each id.
    """

    def __init__(self, vocabulary: Mapping[str, int], scores: Sequence[float]) -> None:
        self._vocabulary = vocabulary
        self._scores = scores
        self._encoded = lru_cache(_REMEMBERED)(self._merged)

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``; a character without a token becomes its bytes."""
        return [
            each
            for piece in self._pieces(text.replace(" ", SPACE))
            for each in self._encoded(piece)
        ]

    @cached_property
    def _neighbours(self) -> frozenset[str]:
        """The pairs of characters that stand side by side in some token: none other is ever merged."""
        return frozenset(
            token[at : at + 2] for token in self._vocabulary for at in range(len(token) - 1)
        )

    def _pieces(self, text: str) -> Iterator[str]:
        """``text`` cut where no token reaches across, mostly into words: so most are known."""
        neighbours = self._neighbours
        start = 0
        for at in range(1, len(text)):
            if text[at - 1 : at + 1] not in neighbours:
                yield text[start:at]
                start = at
        if text:
            yield text[start:]

    def _merged(self, piece: str) -> tuple[int, ...]:
        vocabulary, scores = self._vocabulary, self._scores
        parts = list(piece)
        after = [*range(1, len(parts)), -1]
        before = [*range(-1, len(parts) - 1)]

        def candidate(left: int) -> tuple[float, int, int, str] | None:
            right = after[left]
            whole = parts[left] + parts[right] if right >= 0 else ""
            token = vocabulary.get(whole)
            return None if token is None else (-scores[token], left, right, whole)

        queue = [found for at in range(len(parts) - 1) if (found := candidate(at))]
        heapify(queue)
        while queue:
            _, left, right, whole = heappop(queue)
            if after[left] != right or parts[left] + parts[right] != whole:
                continue  # one of the two has been merged since
            parts[left], parts[right] = whole, ""
            after[left] = after[right]
            after[right] = -2
            if after[left] >= 0:
                before[after[left]] = left
            for at in (before[left], left):
                if at >= 0 and (found := candidate(at)):
                    heappush(queue, found)
        return tuple(each for part in parts if part for each in self._ids(part))

    def _ids(self, part: str) -> Iterator[int]:
        if part in self._vocabulary:
            yield self._vocabulary[part]
            return
        for byte in part.encode():
            token = self._vocabulary.get(f"<0x{byte:02X}>", self._vocabulary.get(chr(byte)))
            if token is None:
                raise TokenizerError(f"the vocabulary has no token for the byte {byte:#04x}")
            yield token
