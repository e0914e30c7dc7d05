"""What broke the prefix in a turn, and which of its faults has the cost?

The first difference in the prompt makes the server prefill all that follows. What else differs
behind it costs nothing more in that turn; once the first one is mended, it has the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvagent.audit.rule import Sighting
from kvagent.audit.rules.fault import Fault, lost
from kvagent.audit.rules.head_faults import HeadFaults
from kvagent.audit.rules.history_faults import HistoryFaults
from kvagent.audit.rules.windows import Windows
from kvagent.audit.turns import Turn


class Prefix:
    """Looks at all that was sent before."""

    def __init__(self) -> None:
        self._head = HeadFaults()
        self._history = HistoryFaults()
        self._windows = Windows()

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """What differs from the request before; nothing is looked at where it only grew."""
        if not turn.differences:
            return ()
        head = self._head.faults(turn)
        if head is None:
            return ()
        return list(self._windows.turn(turn, _with_costs(turn, head + self._history.faults(turn))))

    def end(self) -> Iterable[Sighting]:
        """What was waited with to see whether it comes again."""
        return list(self._windows.end())


def _with_costs(turn: Turn, faults: list[Fault]) -> Iterator[Sighting]:
    for number, fault in enumerate(faults):
        if number == 0:
            yield fault.seen(turn, lost(turn), "")
        elif not fault.only_alone:
            yield fault.seen(turn, 0, faults[0].rule.code)
