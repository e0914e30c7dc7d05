"""How do lines of which most are left out tell which ones they are?

Each bears its number, so that nothing need stand in the place of those left out.
"""

from __future__ import annotations

import re

from kvagent.shorten.pieces import Pieces

# As `cat -n`, editors' tools and viewers print it.
_NUMBER = re.compile(r" *\d+(?:→|\t|: ?|\| )")
_BEGINNING = re.compile(rf"\n{_NUMBER.pattern}")  # line feeds are found faster than beginnings
_NEARLY_ALL = 0.9  # of the lines: a heading or a note of the tool may stand before or behind


def without_numbers(text: str) -> str | None:
    """`text` without the numbers of its lines; None if it has none."""
    beginning = text[:2000].split("\n")[:-1]  # a quick look first
    if sum(map(bool, map(_NUMBER.match, beginning))) < _NEARLY_ALL * len(beginning) - 2:
        return None
    bare, times = _BEGINNING.subn("\n", f"\n{text}")
    return bare[1:] if times >= _NEARLY_ALL * text.count("\n") else None


def numbered_pieces(text: str, bare: str | None) -> Pieces:
    """The lines of `text`, each with its number; `bare` is the text without, where it has them."""
    lines = text.split("\n")
    ended = lines[-1] == ""
    if ended:
        lines.pop()
    if bare is None:
        texts = [f"{number}:{line}" for number, line in enumerate(lines, 1)]
    else:
        texts = [line.lstrip(" ") for line in lines]
    return Pieces(texts, range(1, len(lines) + 2), {}, split=0, ended=ended, numbered=True)
