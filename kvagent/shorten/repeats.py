"""Does a text say the same line many times in a row?"""

from __future__ import annotations

from kvagent.shorten.marker import marker
from kvagent.shorten.pieces import pieces_of
from kvagent.shorten.result import Shortened, count_lines


def lossless(
    text: str,
    *,
    handle: str | None = None,
    source: str | None = None,  # noqa: ARG001 - what every such function is given
) -> Shortened | None:
    """Each run of equal lines as one with its number; None where the text is no shorter so."""
    pieces = pieces_of(text, longest=len(text))
    if not pieces.times:
        return None
    total = count_lines(text)
    head = marker(total, total, "lines", handle, ["repeats folded"])
    whole = f"{head}\n{pieces.whole()}"
    return Shortened(whole, total, 0, "lines", lossless=True) if len(whole) < len(text) else None
