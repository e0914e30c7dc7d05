"""How does a text read of which only the pieces that matter most are kept?

What a type of content asks for comes first, as far as its share goes; the rest of the room goes to
the lines that hold most of what cannot be guessed: rare names for their length. What the lines left
out name beside that is listed in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kvagent.shorten.density import Density
from kvagent.shorten.marker import footer, marker
from kvagent.shorten.pieces import Pieces
from kvagent.shorten.result import Shortened, Unit
from kvagent.shorten.selection import Selection

_FOOTER = 0.2  # of the budget; more of it names more, of which less is understood
_SHORT_LINE = 20


@dataclass(frozen=True, slots=True)
class Wish:
    """Pieces that shall stand, the most wanted first, as far as a share of the room goes.

    `through` says whether pieces that are too long for what is left are skipped, or end the wish.
    """

    pieces: Iterable[int]
    share: float
    through: bool = False


def compose(
    pieces: Pieces,
    budget: int,
    wishes: Sequence[Wish],
    *,
    total: int,
    unit: Unit = "lines",
    handle: str | None = None,
    notes: Sequence[str] = (),
    told: str | None = None,
    to_the_ends: bool = True,
    known: AbstractSet[str] = frozenset(),
) -> Shortened:
    """The text with at most `budget` characters that shows the most of `pieces`.

    total  the size of the source in `unit`s
    notes  what was done to the pieces beforehand
    told   the texts of the pieces with what they tell and without what was added to them, a line
           each; the same as the texts if not given
    known  words that stand elsewhere, so that no line need stand for them
    to_the_ends  whether room that is left goes to the first and last lines, whatever they tell
    """
    # The marker is the longest when as many are shown as there are, but for one.
    longest_marker = len(marker(0, total, unit, handle, notes)) + len(str(total)) - 1
    selection = Selection(pieces, unit, budget - longest_marker - len("\n"))
    if selection.room < 0:
        return no_room(total, unit, budget, handle)
    for_footer = min(int(budget * _FOOTER), selection.room // 3)
    last_line = _fill(selection, wishes, for_footer, told, known, to_the_ends=to_the_ends)
    kept = selection.count()
    shown = [marker(kept, total, unit, handle, notes), selection.text(), *last_line]
    return Shortened("\n".join(shown), kept, total - kept, unit, lossless=False)


def no_room(total: int, unit: Unit, budget: int, handle: str | None) -> Shortened:
    """Where the budget holds no more than the marker, if that."""
    candidates = (marker(0, total, unit, handle), marker(0, total, unit, None), "…", "")
    text = next((text for text in candidates if len(text) <= budget), "")
    return Shortened(text, 0, total, unit, lossless=False)


def _fill(
    selection: Selection,
    wishes: Sequence[Wish],
    for_footer: int,
    told: str | None,
    known: AbstractSet[str],
    *,
    to_the_ends: bool,
) -> list[str]:
    """Chooses what stands, and gives the footer for the rest, if there is one."""
    room = selection.room
    selection.room -= for_footer
    for wish in wishes:
        _grant(selection, wish, int(room * wish.share))
    told = "\n".join(selection.pieces.texts) if told is None else told
    density = Density(selection, told, known)
    density.fill()
    last_line = _footer(selection, density, for_footer - 1)
    # What the footer did not need goes to more lines, and they may make it shorter still.
    selection.room += for_footer - len(last_line) - 1
    grown = density.fill() if selection.room > _SHORT_LINE else False
    if to_the_ends:
        selection.extend()
    selection.close_narrow_gaps()
    if grown and last_line:
        last_line = _footer(
            selection, density, min(for_footer - 1, selection.room + len(last_line))
        )
    return [last_line] if last_line else []


def _grant(selection: Selection, wish: Wish, share: int) -> None:
    until = selection.room - share
    for piece in wish.pieces:
        cost = selection.cost(piece)
        if selection.room - cost < until or not selection.take(piece, cost):
            if not wish.through or selection.room - until < _SHORT_LINE:
                break


def _footer(selection: Selection, density: Density, budget: int) -> str:
    return footer(density.left_out(), selection.standing(), budget)
