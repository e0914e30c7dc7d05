"""How does a text get short that can be read as a structure: all of it where it fits, else a part?"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Generic, TypeVar

from kvagent.shorten.result import Shortened

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Form(Generic[Content]):
    """A type of content, by what can be done with it.

    read    what a text holds, given with its source; None for a text of another type
    whole   all of it, in a form that is mostly shorter
    chosen  a part of it within a budget, or None where that is too small for its structure
    least   with a budget below that, no structure can be shown
    """

    read: Callable[[str, str | None], Content | None]
    whole: Callable[[Content, str | None], Shortened]
    chosen: Callable[[Content, int, str | None, AbstractSet[str]], Shortened | None]
    least: int

    def lossless(
        self, text: str, *, handle: str | None = None, source: str | None = None
    ) -> Shortened | None:
        """All of `text`; None for another type, or where it is no shorter so."""
        content = self.read(text, source)
        if content is None:
            return None
        whole = self.whole(content, handle)
        return whole if len(whole.text) < len(text) else None

    def shorten(
        self,
        text: str,
        budget: int,
        *,
        handle: str | None = None,
        source: str | None = None,
        known: AbstractSet[str] = frozenset(),
    ) -> Shortened | None:
        """`text` in at most `budget` characters; None for another type, or too small a budget."""
        if budget < self.least:
            return None
        content = self.read(text, source)
        if content is None:
            return None
        whole = self.whole(content, handle)
        if len(whole.text) <= budget:
            return whole
        return self.chosen(content, budget, handle, known)
