"""What came out of shortening a text, and how much of it is missing?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["lines", "characters", "items", "values", "rows", "hits", "entries"]
"""What a text consists of: records of a JSON array, values of a JSON object, rows of a table below
its header, hits of a search, entries of a listing; lines or characters of any other."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text after shortening, with honest counts.

    `kept + dropped` is the size of the source in `unit`s. A unit counts as kept only if all of it
    stands in `text`; a run of equal lines that was folded into one with its number counts in full.
    `lossless` says that `text` holds everything the source did (unchanged, or in a shorter form).
    """

    text: str
    kept: int
    dropped: int
    unit: Unit
    lossless: bool


def count_lines(text: str) -> int:
    """The number of lines as an editor or `sed -n` numbers them: only a line feed ends one."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def unchanged(text: str) -> Shortened:
    """The result for a text that stays as it is."""
    return Shortened(text, kept=count_lines(text), dropped=0, unit="lines", lossless=True)
