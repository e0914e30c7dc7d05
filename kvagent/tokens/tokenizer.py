"""What is a tokenizer, whatever file it comes from?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kvagent.backends.prompt import Edges


class TokenizerError(ValueError):
    """There is no tokenizer that can be used, or it cannot take this text.

    The message says what to pass instead.
    """


class Tokenizer(Protocol):
    """Text in, the model's own ids out."""

    @property
    def name(self) -> str:
        """Where it comes from, for people: ``tokenizer of FILE``."""

    @property
    def edges(self) -> Edges:
        """What ``add_special`` adds, as text."""

    def encode(self, text: str, *, add_special: bool = False) -> list[int]:
        """The ids of ``text``; what looks like a special token in it is one.

        With ``add_special`` the ids have the first and last tokens that this model has added to
        every prompt, if it has any.

        Raises:
            TokenizerError: the text is no text (half a surrogate pair).
        """

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """``encode`` of each text, which may take less time for many at once."""
