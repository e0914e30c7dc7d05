"""How does a text show the characters that cannot be seen, or that would move others?

Texts of prompts are hostile, and what differs between two of them may be just such a character. No
character of a text can turn the direction of what stands behind it, or be missed.
"""

from __future__ import annotations

import re

# Controls but tab and newline, halves of surrogates, what has no width, what turns the direction,
# the separators that HTML takes for no line end, and what is no character at all.
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u180e\u200b\u200c\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e0fff"
)
# Within an emoji they join and choose: seen only where a text is looked at closely.
_JOINERS = "\u200d\ufe00-\ufe0f"

_AT_A_GLANCE = re.compile(f"[{_UNSEEN}]")
_CLOSELY = re.compile(f"[{_UNSEEN}{_JOINERS}\xa0\u2000-\u200a\u202f\u205f\u3000]")
_BLANKS = str.maketrans({"\n": "↵\n", "\t": "⇥\t"})


def visible(text: str) -> str:
    """What turns the direction as ``⟨U+202E⟩``, an escape as ``⟨U+001B⟩``; what is seen stays."""
    return _AT_A_GLANCE.sub(_named, text)


def close(text: str) -> str:
    """The same for a text in which every character counts: line ends, tabs and joiners are seen."""
    return _CLOSELY.sub(_named, text).translate(_BLANKS)


def character(one: str) -> str:
    """One character that is pointed at."""
    return {"\n": "↵", "\t": "⇥", " ": "␣"}.get(one) or close(one)


def _named(found: re.Match[str]) -> str:
    return f"⟨U+{ord(found[0]):04X}⟩"
