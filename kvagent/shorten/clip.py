"""How do long values within a text get short, so that the short ones beside them stay whole?"""

from __future__ import annotations

from collections.abc import Sequence

from kvagent.shorten.marker import gap_of_characters

_TAIL = 0.3  # of what stands of it


def clip(text: str, room: int) -> str:
    """`text` in at most `room` characters: its head, the number of characters left out, its tail.

    Where the room does not even hold the number, a part of the head and an ellipsis.
    """
    if len(text) <= room:
        return text
    shown = room - len(gap_of_characters(len(text)))
    if shown < 2:
        return text[: max(0, room - 1)] + "…" if room > 0 else ""
    tail = int(shown * _TAIL)
    head = shown - tail
    return text[:head] + gap_of_characters(len(text) - head - tail) + text[len(text) - tail :]


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of `room` each gets: the small ones all they need, the others the same."""
    result = list(sizes)
    left = len(sizes)
    for index in sorted(range(len(sizes)), key=sizes.__getitem__):
        result[index] = min(sizes[index], max(0, room) // left)
        room -= result[index]
        left -= 1
    return result
