"""Where do special tokens stand in a text?

As llama.cpp finds them: the longest token first, every place where it stands, then the next longest
in what is left. (The tokenizers library goes by place first; where two tokens overlap they differ.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

# What C's isspace takes for a blank.
_BLANK = " \t\n\v\f\r"


class Specials:
    """Splits texts at special tokens.

    Args:
        ids: each token's text and id.
        swallowing: ids of tokens that take the blanks behind them along.
    """

    def __init__(self, ids: Mapping[str, int], swallowing: Collection[int] = ()) -> None:
        # By length in bytes; of the same length, in the order of the vocabulary.
        ordered = sorted(ids, key=lambda token: -len(token.encode(errors="surrogateescape")))
        self._ids = {token: ids[token] for token in ordered if token}
        self._swallowing = frozenset(swallowing)
        # Vocabularies have thousands of special tokens, and a text a few: most are ruled out by
        # where they could begin.
        self._lengths: dict[str, list[int]] = {}
        for token in self._ids:
            lengths = self._lengths.setdefault(token[0], [])
            if len(token) not in lengths:
                lengths.append(len(token))

    def split(self, text: str) -> list[str | int]:
        """``text`` in order: ids of special tokens, and what lies between them."""
        pieces: list[str | int] = [text] if text else []
        present = set(self._present(text))
        for token in self._ids if present else ():
            if token in present:
                pieces = [part for piece in pieces for part in self._cut(piece, token)]
        return pieces

    def _present(self, text: str) -> Iterator[str]:
        for first, lengths in self._lengths.items():
            at = text.find(first)
            while at >= 0:
                for length in lengths:
                    candidate = text[at : at + length]
                    if candidate in self._ids:
                        yield candidate
                at = text.find(first, at + 1)

    def _cut(self, piece: str | int, token: str) -> Iterator[str | int]:
        if isinstance(piece, int):
            yield piece
            return
        rest = piece
        swallows = self._ids[token] in self._swallowing
        while True:
            before, found, rest = rest.partition(token)
            if before:
                yield before
            if not found:
                return
            yield self._ids[token]
            if swallows:
                rest = rest.lstrip(_BLANK)
