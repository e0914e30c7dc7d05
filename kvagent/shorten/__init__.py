"""How does one long text get short, so that what an agent needs of it still stands?

One file for each type of content. A new one joins by taking its place in `SHORTENERS`, and in
`LOSSLESS` where it knows a shorter form that loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Protocol

from kvagent.shorten import blob, code, diff, hits, listing, log, markdown, repeats, table
from kvagent.shorten import html as html_shortener
from kvagent.shorten import json as json_shortener
from kvagent.shorten import text as text_shortener
from kvagent.shorten.identifiers import words_of
from kvagent.shorten.marker import is_marked
from kvagent.shorten.result import Shortened, unchanged
from kvagent.shorten.source import source_of

__all__ = [
    "SHORTENERS",
    "Shortened",
    "Shortener",
    "lossless",
    "recognised",
    "shorten",
    "source_of",
    "words_of",
]


class Shortener(Protocol):
    """What a module offers that shortens one type of content."""

    def shorten(
        self,
        text: str,
        budget: int,
        *,
        handle: str | None = None,
        source: str | None = None,
        known: AbstractSet[str] = frozenset(),
    ) -> Shortened | None:
        """As the function `shorten` of this package; None for a text that is not of this type, or
        for which the budget is too small to show its structure."""


SHORTENERS: tuple[Shortener, ...] = (
    json_shortener,
    blob,
    diff,
    html_shortener,
    hits,
    listing,
    table,
    markdown,
    code,
    log,
    text_shortener,
)
"""In the order in which they are asked; the last one takes every text."""

LOSSLESS: tuple[Callable[..., Shortened | None], ...] = (
    json_shortener.lossless,
    hits.lossless,
    listing.lossless,
    table.lossless,
    repeats.lossless,
)
"""The functions `lossless` of the modules that have one, with the arguments of the one below."""

# A lossless form that saves less than this is not worth that the text looks unlike its source.
_WORTHWHILE = 0.25


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,
    known: AbstractSet[str] = frozenset(),
) -> Shortened:
    """Shortens `text` to at most `budget` characters by the first shortener that knows its type.

    The same arguments give the same result, in any process. The result is never longer than the
    text; a text that fits, or that was shortened before, comes back unchanged.

    handle  the name under which the original can be had back; it is told to the reader
    source  where the text comes from, as far as known, in one string: a tool's name and then what
            it was called with, as `source_of` puts them together, or a file's path
    known   words, as `words_of` splits a text, that need not be kept for their own sake: what other
            results show that stand beside this one
    """
    return recognised(text, budget, handle=handle, source=source, known=known)[1]


def recognised(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,
    known: AbstractSet[str] = frozenset(),
) -> tuple[str, Shortened]:
    """What `shorten` gives, behind the name of the type as which it took the text.

    The name is "" for a text that stays as it is because it fits, or was shortened before.
    """
    if len(text) <= max(0, budget) or is_marked(text):
        return "", unchanged(text)
    for shortener in SHORTENERS:
        shortened = shortener.shorten(text, budget, handle=handle, source=source, known=known)
        if shortened is not None and len(shortened.text) <= max(0, budget):
            name = getattr(shortener, "__name__", type(shortener).__name__)
            return name.rpartition(".")[2], shortened
    raise AssertionError("the last shortener takes every text")


def lossless(
    text: str, *, handle: str | None = None, source: str | None = None
) -> Shortened | None:
    """A shorter form of `text` that holds all of it, if there is one that saves a quarter at least.

    Minified JSON, a table for an array of records, hits grouped by file, paths folded by folder,
    runs of equal lines.
    `handle` and `source` as for `shorten`.
    """
    if is_marked(text):
        return None
    for form in LOSSLESS:
        shorter = form(text, handle=handle, source=source)
        if shorter is not None:
            saved = len(text) - len(shorter.text)
            return shorter if saved >= _WORTHWHILE * len(text) else None
    return None
