"""Does a history lose its oldest messages turn after turn, or once?

Once it is a cut, twice within a few turns at the same place it is a window that slides. So a cut is
told only when it is known what it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kvagent.audit.rule import Sighting
from kvagent.audit.rules import history
from kvagent.audit.turns import Turn

# A cut that comes again within so many turns is a window's.
_SOON = 4

# Branches in which a cut is waited for.
_WAITING = 1_000


@dataclass(slots=True)
class _Cut:
    turn: int
    place: object
    seen: list[Sighting] = field(default_factory=list)
    slides: bool = False


class Windows:
    """Holds back what may be the first step of a window."""

    def __init__(self) -> None:
        self._cuts: dict[int, _Cut] = {}

    def turn(self, turn: Turn, seen: Iterator[Sighting]) -> Iterator[Sighting]:
        """The sightings of a turn, and those that were waited with."""
        branch = turn.placed.branch
        cut = self._cuts.get(branch)
        if cut is not None and turn.number - cut.turn > _SOON:
            yield from self._told(branch)
            cut = None
        held: list[Sighting] = []
        for each in seen:
            if _may_slide(each):
                held.append(each)
            else:
                yield each
        if not held:
            return
        place = _place(held[0], turn)
        if cut is not None and cut.place == place:
            yield from map(_sliding, (*cut.seen, *held))
            self._cuts[branch] = _Cut(turn.number, place, slides=True)
        else:
            yield from self._told(branch)
            self._cuts[branch] = _Cut(turn.number, place, held)
        if len(self._cuts) > _WAITING:
            yield from self._told(next(iter(self._cuts)))

    def end(self) -> Iterator[Sighting]:
        """What was still waited with."""
        for branch in list(self._cuts):
            yield from self._told(branch)

    def _told(self, branch: int) -> Iterator[Sighting]:
        cut = self._cuts.pop(branch, None)
        if cut is not None:
            yield from cut.seen


def _may_slide(seen: Sighting) -> bool:
    return seen.rule is history.REMOVED or (
        seen.rule is history.COMPACTED and seen.key == "cleared"
    )


def _place(seen: Sighting, turn: Turn) -> object:
    """Where messages leave; results are cleared further and further on."""
    if seen.rule is history.COMPACTED:
        return "cleared"
    return (seen.spot.message or 0) - turn.placed.snapshot.head


def _sliding(seen: Sighting) -> Sighting:
    cleared = seen.rule is history.COMPACTED
    said = (
        "Old results are cleared turn after turn."
        if cleared
        else "The oldest messages leave turn after turn."
    )
    return replace(seen, rule=history.WINDOW, key=cleared, said=said, fix="")
