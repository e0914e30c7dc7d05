"""Which words tell a reader that a text was shortened, where, and how to get the rest?

Everything that a shortener adds to a text is worded here, so that a shortened text can be told
from an original and the wording is the same for every content type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

from kvagent.shorten.result import Unit

_MARKER = re.compile(
    rf"\[(?:kvagent: |… )(?:\d+ of \d+|all \d+) (?:{'|'.join(get_args(Unit))}) shown"
    r"(?:, [a-z0-9 ]+)*(?:; all of it[^\]\n]*)?\](?:\n|\Z)"
)
_POINTER_OPENING = "[kvagent: the same text as a result above"
_FOOTER_OPENING, _FOOTER_CLOSING = "[among the rest: ", "]"


def is_marked(text: str) -> bool:
    """Whether `text` begins with the marker of a shortened text."""
    return _MARKER.match(text) is not None


def without_marker(text: str) -> str:
    """A shortened text without its first line; any other text as it is."""
    match = _MARKER.match(text)
    return text[match.end() :] if match is not None else text


def marker(kept: int, total: int, unit: Unit, handle: str | None, notes: Iterable[str] = ()) -> str:
    """The first line of a shortened text: how much of it stands here, and how to get all of it.

    `notes` say what was done beside leaving out, for instance "repeats folded": small letters,
    digits and blanks.
    """
    shown = f"all {total} {unit} shown" if kept == total else f"{kept} of {total} {unit} shown"
    shown = ", ".join([shown, *notes])
    if handle is None:
        return f"[… {shown}]"
    return f"[kvagent: {shown}; {had_back(handle)}]"


def had_back(handle: str) -> str:
    """Where all of a text is: under a handle, or by a call that the reader can make."""
    return f"all of it: {handle}" if handle.endswith(")") else f"all of it is kept as {handle}"


def pointer(source: str, handle: str) -> str:
    """Stands in place of a text that stands above already, as the result of a call like `source`."""
    return f"{_POINTER_OPENING} ({source}), unchanged; {had_back(handle)}]"


def is_pointer(text: str) -> bool:
    """Whether `text` says that it stands above."""
    return text.startswith(_POINTER_OPENING)


def gap_of_lines(first: int, last: int) -> str:
    """Stands in the place of the lines, or rows, `first` to `last`, counted from 1.

    As short as can be: there is one for nearly each line that stands.
    """
    return f"[… {first}-{last}]" if last > first else f"[… {first}]"


def gap_of_characters(count: int) -> str:
    """Stands within a line in the place of `count` characters."""
    return f"[… {count} characters …]"


def repeated(times: int) -> str:
    """Stands on a line of its own behind a line that the source has `times` times in a row."""
    return f"… (repeated {times} times)"


def footer(names: Iterable[str], text: str, budget: int) -> str:
    """One line with the first of `names` that `budget` characters hold; "" if none fits.

    What already stands in `text`, or in the line as a part of another name, is not named again.
    """
    line, separator = _FOOTER_OPENING, ""
    room = budget - len(_FOOTER_OPENING) - len(_FOOTER_CLOSING)
    for name in names:
        size = len(separator) + len(name)
        # In this order: most names come when the line is nearly full, and comparing is quick.
        if size <= room and name not in line and name not in text:
            line += separator + name
            room -= size
            separator = ", "
            if room <= len(separator):
                break
    return line + _FOOTER_CLOSING if separator else ""
