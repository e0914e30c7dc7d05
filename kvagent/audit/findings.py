"""Which sightings are one fault, and which fault is the worst?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace

from kvagent.audit.rule import Finding, Severity, Sighting, Spot

# Places that are named of one fault, and how many of those show their texts.
SPOTS = 50
_TEXTS = 3
# Characters of a text that is shown by its beginning: whatever a check gives, no more of a prompt
# gets into a report.
_BEGINNING = 160

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(slots=True)
class _Fault:
    first: Sighting
    spots: list[Spot] = field(default_factory=list)
    count: int = 0
    tokens: int = 0
    behind: Counter[str] = field(default_factory=Counter)
    """How often a fault with another code stood in front of it."""


class Findings:
    """Takes sightings and gives findings; its memory grows with the faults, not with the log.

    Args:
        kv_bytes: bytes of the KV cache that so many tokens take.
    """

    def __init__(self, kv_bytes: Callable[[int], int] | None = None) -> None:
        self._kv_bytes = kv_bytes
        self._faults: dict[Hashable, _Fault] = {}

    def add(self, sightings: Iterable[Sighting]) -> None:
        """Count what was seen."""
        for seen in sightings:
            conversation = None if seen.everywhere else seen.spot.conversation
            key = seen.rule.code, conversation, seen.key
            fault = self._faults.get(key)
            if fault is None:
                fault = self._faults[key] = _Fault(seen)
            fault.count += seen.count
            fault.tokens += seen.spot.tokens
            if seen.spot.behind not in ("", seen.rule.code):
                fault.behind[seen.spot.behind] += seen.count
            if len(fault.spots) < SPOTS:
                shown = len(fault.spots) < _TEXTS
                fault.spots.append(_brief(seen.spot) if shown else _bare(seen.spot))

    def all(self) -> list[Finding]:
        """The worst first: by severity, then by tokens, then by code and place."""
        found = [self._finding(fault) for fault in self._faults.values()]
        return sorted(
            found,
            key=lambda each: (
                _RANK[each.rule.severity],
                -each.tokens,
                each.rule.code,
                each.spots[0].conversation,
                each.spots[0].turn,
            ),
        )

    def _finding(self, fault: _Fault) -> Finding:
        first = fault.first
        return Finding(
            first.rule,
            first.said + _hidden(fault),
            first.fix or first.rule.fix,
            first.example or first.rule.example,
            fault.spots,
            fault.count,
            fault.tokens,
            None if self._kv_bytes is None else self._kv_bytes(fault.tokens),
            _told(first.key),
        )


def _brief(spot: Spot) -> Spot:
    """The place with the beginning of its text."""
    if len(spot.excerpt) <= _BEGINNING:
        return spot
    return replace(spot, excerpt=spot.excerpt[:_BEGINNING])


def _bare(spot: Spot) -> Spot:
    """The place without its texts."""
    return Spot(
        spot.place,
        spot.conversation,
        spot.turn,
        spot.message,
        spot.tool,
        spot.field,
        spot.character,
        spot.tokens,
        behind=spot.behind,
    )


def _hidden(fault: _Fault) -> str:
    """What stands in front of it and has the cost."""
    if not fault.behind:
        return ""
    codes = " or ".join(sorted(fault.behind))
    times = fault.behind.total()
    often = "each time" if times == fault.count else f"{times} of {fault.count} times"
    return f" {often.capitalize()} {codes} stands in front of it and has the cost of both."


def _told(key: Hashable) -> str:
    """A key as text; what is no name or number in it says nothing in another process."""
    parts = key if isinstance(key, tuple) else (key,)
    return " ".join(str(part) for part in parts if isinstance(part, str | int) and part != "")
