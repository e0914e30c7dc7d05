"""How does a text begin, so that most types can be ruled out before all of it is looked at?"""

from __future__ import annotations

_LINES = 40


def beginning(text: str) -> list[str]:
    """The first lines of `text`."""
    return text.split("\n", _LINES)[:_LINES]
