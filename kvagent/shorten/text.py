"""Which parts of a long text stay, if nothing is known about what it holds?

Its two ends, what reports an error, and then the lines that tell most for their length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from kvagent.shorten.alarms import alarms
from kvagent.shorten.clean import clean
from kvagent.shorten.composition import Wish, compose
from kvagent.shorten.marker import is_marked, marker
from kvagent.shorten.pieces import Pieces, pieces_of
from kvagent.shorten.result import Shortened, Unit, count_lines, unchanged

# Shares of the room. On recorded coding sessions a larger head or tail was worth less than lines
# taken at random; the end is where a command says how it went.
_HEAD, _TAIL, _ALARMS = 0.05, 0.1, 0.2
_IN_CONTEXT = 4  # so many of the reports stand with the lines around them


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,  # noqa: ARG001 - what every shortener is given
    known: AbstractSet[str] = frozenset(),
) -> Shortened:
    """Shortens `text` to at most `budget` characters, marker and footer included.

    A text that fits, or that already begins with the marker of a shortened one, stays as it is.
    `handle` is the name under which `recall` gives the original back; `source` is not looked at.
    """
    if len(text) <= max(0, budget) or is_marked(text):
        return unchanged(text)
    return lines_of_text(text, budget, handle, _wishes, known)


def lines_of_text(
    text: str,
    budget: int,
    handle: str | None,
    wishes: Callable[[Pieces], Sequence[Wish]],
    known: AbstractSet[str],
    dull: Callable[[Sequence[str]], Iterable[int]] | None = None,
) -> Shortened:
    """The lines of `text` as a terminal shows them, those that `wishes` names first.

    Lines that stand many times in a row are folded into one, long lines taken apart. Those that
    `dull` names stand only if they were wished for.
    """
    cleaned = clean(text)
    pieces = pieces_of(cleaned, longest=min(400, max(80, budget // 16)))
    unit: Unit = "characters" if pieces.split * 2 > len(cleaned) else "lines"
    total = len(text) if unit == "characters" else count_lines(text)
    notes = ["terminal codes removed"] if cleaned != text else []
    if (pieces.times or notes) and sum(map(len, pieces.texts)) < budget:
        kept = total - (len(text) - len(cleaned) if unit == "characters" else 0)
        folded = [*notes, "repeats folded"] if pieces.times else notes
        whole = f"{marker(kept, total, unit, handle, folded)}\n{pieces.whole()}"
        if len(whole) <= budget:
            return Shortened(whole, kept, total - kept, unit, lossless=not notes)
    told = None
    if dull is not None:
        texts = list(pieces.texts)
        for index in dull(pieces.texts):
            texts[index] = ""
        told = "\n".join(texts)
    return compose(
        pieces,
        budget,
        wishes(pieces),
        total=total,
        unit=unit,
        handle=handle,
        notes=notes,
        told=told,
        known=known,
    )


def ends(count: int) -> Wish:
    """The first and the last of so many pieces, in any case."""
    return Wish((0, count - 1), 1.0, through=True)


def _wishes(pieces: Pieces) -> Sequence[Wish]:
    count = len(pieces)
    return (
        ends(count),
        Wish(range(1, count), _HEAD),
        Wish(range(count - 2, 0, -1), _TAIL),
        Wish(in_context(alarms(pieces.texts), count), _ALARMS, through=True),
    )


def in_context(reports: Iterator[int], count: int) -> Iterator[int]:
    """The first of the reports with the lines around them, of the others only they."""
    for rank, report in enumerate(reports):
        around = (report, report + 1, report - 1, report + 2) if rank < _IN_CONTEXT else (report,)
        yield from (piece for piece in around if 0 <= piece < count)
