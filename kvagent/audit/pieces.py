"""Which tokens is a prompt, without encoding again what was encoded before?

A special token joins nothing beside it, so the text between two of them is encoded by itself. What a
prompt has in common with the one before it, up to such a token, is not even cut again.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kvagent.audit.prompts import Ids
from kvagent.audit.recent import Recent
from kvagent.tokens.tokenizer import TokenizerError

if TYPE_CHECKING:
    from kvagent.tokens.tokenizer import Tokenizer

# Tokens of pieces that are held; twice as many in the worst case.
_ROOM = 500_000
_MARKERS = 100_000

# Special tokens as models have them; whether one is, the tokenizer is asked. Those in square brackets
# are Mistral's: logs are full of such brackets, so nobody else's are looked at.
_ANGLES = r"<(?:[|｜][^<>|｜\s]{1,60}[|｜]|[a-z_]{3,30}|/?s)>"
_BRACKETS = r"\[/?[A-Z_]{3,30}\]"
_BESIDE = (("a", "a"), ("\n", "\n"), (" ", " "), (".", "<"))


class Cut(NamedTuple):
    """A text in pieces."""

    ends: array[int]
    """At which characters pieces end; first comes the beginning of the text, 0."""
    is_safe: bytearray
    """For each, whether nothing behind it changes what stands in front of it: a special token ends
    there, or the text begins."""
    kept: int
    """So many of ``ends`` were taken over from the text before."""
    pieces: Sequence[str]
    """Those behind ``ends[kept - 1]``."""

    @property
    def same(self) -> int:
        """Characters that were taken over."""
        return self.ends[self.kept - 1]


class Pieces:
    """Cuts prompts, and encodes what they are cut into."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._held: Recent[str, Ids[int]] = Recent(_ROOM)
        self._markers: dict[str, Ids[int] | None] = {}
        self._thread = ThreadPoolExecutor(1, "kvagent-tokenizer")
        self._coming: tuple[Sequence[str], Future[list[list[int]]]] | None = None
        has_brackets = len(tokenizer.encode("[INST]")) == 1
        self._looks = re.compile(f"{_ANGLES}|{_BRACKETS}" if has_brackets else _ANGLES)

    def cut(self, text: str, before: Cut | None = None, same: int = 0) -> Cut:
        """The pieces of a text whose first ``same`` characters are those of one that was cut before.

        Raises:
            TokenizerError: what looks like a special token is no text.
        """
        # Arrays, because all of them is copied for each request.
        ends, is_safe = array("I", [0]), bytearray([True])
        if before is not None:
            kept = bisect_right(before.ends, same)
            while not before.is_safe[kept - 1]:
                kept -= 1
            ends, is_safe = before.ends[:kept], before.is_safe[:kept]
        kept, at = len(ends), ends[-1]
        pieces = []
        for found in self._looks.finditer(text, at):
            if self._marker(found[0]) is None:
                continue
            start, end = found.span()
            if start > at:
                pieces.append(text[at:start])
                ends.append(start)
                is_safe.append(False)
            pieces.append(found[0])
            ends.append(end)
            is_safe.append(True)
            at = end
        if at < len(text):
            pieces.append(text[at:])
            ends.append(len(text))
            is_safe.append(False)
        return Cut(ends, is_safe, kept, pieces)

    def ahead(self, pieces: Iterable[str]) -> None:
        """Encode so many at once, in a thread: most tokenizers let others run meanwhile."""
        self._take()
        markers, held = self._markers, self._held
        fresh = [
            piece
            for piece in dict.fromkeys(pieces)
            if markers.get(piece) is None and held.get(piece) is None
        ]
        if fresh:
            self._coming = fresh, self._thread.submit(self._tokenizer.encode_all, fresh)

    def _take(self) -> None:
        """Hold what was encoded ahead, once it is there."""
        if self._coming is None:
            return
        pieces, encoded = self._coming
        self._coming = None
        # Where one fails, whoever asks for it is told.
        with suppress(TokenizerError):
            for piece, ids in zip(pieces, encoded.result(), strict=True):
                self._held.put(piece, array("I", ids), len(ids) + 16)

    def append(self, pieces: Sequence[str], ids: Ids[int], counts: array[int]) -> None:
        """Add the tokens of pieces to ``ids``, and to ``counts`` how many there are after each.

        Raises:
            TokenizerError: a piece is no text.
        """
        markers, held = self._markers, self._held
        for piece in pieces:
            found = markers.get(piece) or held.get(piece)
            if found is None and self._coming is not None:
                self._take()
                found = held.get(piece)
            if found is None:
                found = array("I", self._tokenizer.encode(piece))
                held.put(piece, found, len(found) + 16)
            ids += found
            counts.append(len(ids))

    def _marker(self, text: str) -> Ids[int] | None:
        """The token, if it is one that joins nothing beside it."""
        if text in self._markers:
            return self._markers[text]
        encode = self._tokenizer.encode
        ids = encode(text)
        is_special = len(ids) == 1 and all(
            encode(before + text + after) == [*encode(before), *ids, *encode(after)]
            for before, after in _BESIDE
        )
        made = array("I", ids) if is_special else None
        if len(self._markers) < _MARKERS:
            self._markers[text] = made
        return made
