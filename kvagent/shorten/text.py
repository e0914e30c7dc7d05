"""Which parts of a long text stay, if nothing is known about what it holds?

Its two ends, what reports an error, and then the lines that hold most of what cannot be guessed:
rare names for their length. What the lines left out name beside that is listed in one line.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from kvagent.shorten.alarms import alarms
from kvagent.shorten.clean import clean
from kvagent.shorten.density import Density
from kvagent.shorten.identifiers import Vocabulary, spaced, vocabulary_of
from kvagent.shorten.marker import footer, is_marked, marker
from kvagent.shorten.pieces import pieces_of
from kvagent.shorten.result import Shortened, Unit, count_lines, unchanged
from kvagent.shorten.selection import Selection

# Shares of the budget. On recorded coding sessions a larger head or tail was worth less than lines
# taken at random; the end is where a command says how it went.
_HEAD, _TAIL, _ALARMS, _FOOTER = 0.05, 0.1, 0.2, 0.25
_IN_CONTEXT = 4  # so many of the reports stand with the lines around them
_SHORT_LINE = 20


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,  # noqa: ARG001 - what every shortener is given
) -> Shortened:
    """Shortens `text` to at most `budget` characters, marker and footer included.

    A text that fits, or that already begins with the marker of a shortened one, stays as it is.
    `handle` is the name under which `recall` gives the original back; `source` is not looked at.
    """
    if len(text) <= max(0, budget) or is_marked(text):
        return unchanged(text)
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
    # The marker is the longest when as many are shown as there are, but for one.
    longest_marker = len(marker(0, total, unit, handle, notes)) + len(str(total)) - 1
    selection = Selection(pieces, unit, budget - longest_marker - len("\n"))
    if selection.room < 0:
        return _no_room(total, unit, budget, handle)
    last_line = _fill(selection, for_footer=min(int(budget * _FOOTER), selection.room // 3))
    kept = selection.count()
    shown = [marker(kept, total, unit, handle, notes), selection.text(), *last_line]
    return Shortened("\n".join(shown), kept, total - kept, unit, lossless=False)


def _no_room(total: int, unit: Unit, budget: int, handle: str | None) -> Shortened:
    """Where the budget holds no more than the marker, if that."""
    candidates = (marker(0, total, unit, handle), marker(0, total, unit, None), "…", "")
    text = next((text for text in candidates if len(text) <= budget), "")
    return Shortened(text, 0, total, unit, lossless=False)


def _fill(selection: Selection, for_footer: int) -> list[str]:
    """Chooses what stands, and gives the footer for the rest, if there is one."""
    texts = selection.pieces.texts
    room = selection.room
    selection.room -= for_footer
    _take_ends(selection, int(room * _HEAD), int(room * _TAIL))
    _take_alarms(selection, int(room * _ALARMS))
    spaced_text = spaced("\n".join(texts))
    vocabulary = vocabulary_of(spaced_text)
    density = Density(selection, spaced_text.split("\n"), vocabulary)
    density.fill()
    last_line = _footer(selection, density.covered, vocabulary, for_footer - 1)
    # What the footer did not need goes to more lines, and they make it shorter still.
    selection.room += for_footer - len(last_line) - 1
    density.fill()
    selection.extend()
    selection.close_narrow_gaps()
    in_footer = min(for_footer - 1, selection.room + len(last_line))
    last_line = _footer(selection, density.covered, vocabulary, in_footer)
    return [last_line] if last_line else []


def _take_ends(selection: Selection, for_head: int, for_tail: int) -> None:
    """The first and the last piece in any case, and as many with them as their shares allow."""
    last = len(selection) - 1
    selection.take(0)
    selection.take(last)
    for pieces, share in ((range(1, last), for_head), (range(last - 1, 0, -1), for_tail)):
        until = selection.room - share
        for piece in pieces:
            if selection.room - selection.cost(piece) < until or not selection.take(piece):
                break


def _take_alarms(selection: Selection, share: int) -> None:
    """The first and the last of the reports with the lines around them, of the others only they."""
    until = selection.room - share
    for rank, report in enumerate(alarms(selection.pieces.texts)):
        around = (report, report + 1, report - 1, report + 2) if rank < _IN_CONTEXT else (report,)
        for piece in around:
            if not 0 <= piece < len(selection) or piece in selection:
                continue
            if selection.room - selection.cost(piece) < until or not selection.take(piece):
                break
        if selection.room - until < _SHORT_LINE:
            break


def _footer(
    selection: Selection, covered: AbstractSet[str], vocabulary: Vocabulary, budget: int
) -> str:
    left_out = (name for name in vocabulary.identifiers if name not in covered)
    return footer(left_out, selection.text(), budget)
