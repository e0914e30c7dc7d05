"""How do two texts stand side by side so that the eye falls on where they part?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from kvagent.audit.report.page.visible import character, close, visible
from kvagent.audit.rule import Contrast

Look = Literal["same", "first", "other", "end"]
"""``first`` is the first character that differs, ``end`` stands where the text has no more,
``other`` is what differs behind it."""

# Of a text before and behind the place.
_SHOWN = 240
# Texts that have less in common differ as a whole: to point at words would only confuse.
_ALIKE = 0.5

# Letters that two words happen to share say nothing.
_WORDS = re.compile(r"\w+|\W")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text and how it looks."""

    text: str
    look: Look


def side_by_side(contrast: Contrast, cut: bool) -> tuple[list[Piece], list[Piece]]:
    """The pieces of the text before, and of the text now.

    Args:
        cut: whether there is more of the text in front of them.
    """
    at = contrast.offset
    start = max(0, at - _SHOWN)
    sides = [text[start : at + _SHOWN] for text in (contrast.before, contrast.after)]
    at -= start
    behind = [_WORDS.findall(side[at + 1 :]) for side in sides]
    matcher = SequenceMatcher(None, behind[0], behind[1], autojunk=False)
    alike = matcher.ratio() >= _ALIKE
    steps = matcher.get_opcodes() if alike else []
    found: list[list[Piece]] = []
    for number, side in enumerate(sides):
        pieces = []
        if front := side[:at]:
            pieces.append(Piece(("…" if cut or start else "") + visible(front), "same"))
        if at < len(side):
            pieces.append(Piece(character(side[at]), "first"))
            if side[at] == "\n":
                pieces.append(Piece("\n", "same"))
        else:
            pieces.append(Piece("ends here", "end"))
        pieces += _behind(behind[number], number, steps)
        found.append(pieces)
    return found[0], found[1]


def _behind(
    words: Sequence[str], side: int, steps: Sequence[tuple[str, int, int, int, int]]
) -> list[Piece]:
    if not steps:
        return [Piece(visible("".join(words)), "same")] if words else []
    pieces = []
    for name, *ends in steps:
        part = "".join(words[ends[2 * side] : ends[2 * side + 1]])
        if part and name == "equal":
            pieces.append(Piece(visible(part), "same"))
        elif part:
            pieces.append(Piece(close(part), "other"))
    return pieces
