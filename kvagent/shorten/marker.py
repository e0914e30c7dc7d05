"""Which words tell a reader that a text was shortened, where, and how to get the rest?

Everything that a shortener adds to a text is worded here, so that a shortened text can be told
from an original and the wording is the same for every content type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kvagent.shorten.result import Unit

_MARKER = re.compile(
    r"\[(?:kvagent: |… )(?:\d+ of \d+|all \d+) (?:lines|characters) shown"
    r"(?:, [a-z ]+)*(?:; all of it: recall\(\"[^\"\n]*\"\))?\](?:\n|\Z)"
)
_FOOTER_OPENING, _FOOTER_CLOSING = "[among the rest: ", "]"


def is_marked(text: str) -> bool:
    """Whether `text` begins with the marker of a shortened text."""
    return _MARKER.match(text) is not None


def marker(kept: int, total: int, unit: Unit, handle: str | None, notes: Iterable[str] = ()) -> str:
    """The first line of a shortened text: how much of it stands here, and how to get all of it.

    `notes` say what was done beside leaving out, for instance "repeats folded".
    """
    shown = f"all {total} {unit} shown" if kept == total else f"{kept} of {total} {unit} shown"
    shown = ", ".join([shown, *notes])
    if handle is None:
        return f"[… {shown}]"
    return f'[kvagent: {shown}; all of it: recall("{handle}")]'


def gap_of_lines(first: int, last: int) -> str:
    """Stands in the place of the lines `first` to `last`, counted from 1."""
    return f"[… lines {first}-{last} …]" if last > first else f"[… line {first} …]"


def gap_of_characters(count: int) -> str:
    """Stands within a line in the place of `count` characters."""
    return f"[… {count} characters …]"


def repeated(times: int) -> str:
    """Stands on a line of its own behind a line that the source has `times` times in a row."""
    return f"… (repeated {times} times)"


def footer(identifiers: Iterable[str], budget: int) -> str:
    """One line naming as many of `identifiers` as `budget` characters hold, in the given order.

    One that already stands within another is not named again; "" if none fits.
    """
    line, separator = _FOOTER_OPENING, ""
    room = budget - len(_FOOTER_OPENING) - len(_FOOTER_CLOSING)
    for identifier in identifiers:
        if room <= 0:
            break
        if len(separator) + len(identifier) <= room and identifier not in line:
            line += separator + identifier
            room -= len(separator) + len(identifier)
            separator = ", "
    return line + _FOOTER_CLOSING if separator else ""
