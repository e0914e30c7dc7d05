"""How does one long text get short, so that what an agent needs of it still stands?

One file for each type of content. A new one joins by taking its place in `SHORTENERS`.
"""

from __future__ import annotations

from typing import Protocol

from kvagent.shorten import text as text_shortener
from kvagent.shorten.marker import is_marked
from kvagent.shorten.result import Shortened, unchanged

__all__ = ["SHORTENERS", "Shortened", "Shortener", "shorten"]


class Shortener(Protocol):
    """What a module offers that shortens one type of content."""

    def shorten(
        self, text: str, budget: int, *, handle: str | None = None, source: str | None = None
    ) -> Shortened | None:
        """As the function `shorten` of this package; None for a text that is not of this type."""


SHORTENERS: tuple[Shortener, ...] = (text_shortener,)  # in this order; the last one takes all


def shorten(
    text: str, budget: int, *, handle: str | None = None, source: str | None = None
) -> Shortened:
    """Shortens `text` to at most `budget` characters by the first shortener that knows its type.

    The same arguments give the same result, in any process. The result is never longer than the
    text; a text that fits, or that was shortened before, comes back unchanged.

    handle  the name under which the original can be had back; it is told to the reader
    source  where the text comes from, as far as known: a tool's name, or a file's path
    """
    if len(text) <= max(0, budget) or is_marked(text):
        return unchanged(text)
    for shortener in SHORTENERS:
        shortened = shortener.shorten(text, budget, handle=handle, source=source)
        if shortened is not None:
            return shortened
    raise AssertionError("the last shortener takes every text")
