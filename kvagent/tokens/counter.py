"""How many tokens has a text, and is that the model's own count?"""

from __future__ import annotations

from typing import Protocol

from kvagent.tokens.estimate import count_tokens


class Counter(Protocol):
    """Text in, tokens out; it says itself whether its counts can be relied on.

    Every `Model` is one.
    """

    @property
    def name(self) -> str:
        """What the counts come from, for people."""

    @property
    def exact(self) -> bool:
        """Whether they are the model's own."""

    def count(self, text: str) -> int:
        """The tokens of ``text``."""


class Estimate:
    """Counts by a general tokenizer, for a model whose own is not at hand."""

    name = "estimate: cl100k"
    exact = False

    def count(self, text: str) -> int:
        """About the tokens of ``text``."""
        return count_tokens(text)


ESTIMATE = Estimate()
