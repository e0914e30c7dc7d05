"""What broke the prefix in a turn, and which of its faults has the cost?

The first difference in the prompt makes the server prefill all that follows. What else differs
behind it costs nothing more in that turn; once the first one is mended, it has the cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kvagent.audit.difference import loaded
from kvagent.audit.history import tells_summary
from kvagent.audit.rule import Sighting
from kvagent.audit.rules import head, history
from kvagent.audit.rules.fault import Fault, lost
from kvagent.audit.rules.head_faults import HeadFaults
from kvagent.audit.rules.history_faults import HistoryFaults
from kvagent.audit.rules.windows import Windows
from kvagent.audit.turns import Turn
from kvagent.chat import text_of


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
        of_head = self._head.faults(turn)
        if of_head is None:
            return ()
        faults = _with_summary(turn, of_head, self._history.faults(turn))
        return list(self._windows.turn(turn, _with_costs(turn, faults)))

    def end(self) -> Iterable[Sighting]:
        """What was waited with to see whether it comes again."""
        return list(self._windows.end())


def _with_summary(turn: Turn, of_head: list[Fault], of_history: list[Fault]) -> list[Fault]:
    """All faults; a summary in the head and the messages that it stands for are one."""
    faults = of_head + of_history
    edited = next((fault for fault in of_head if fault.rule is head.EDITED), None)
    if edited is None or all(fault.rule is not history.REMOVED for fault in of_history):
        return faults
    snapshot = turn.placed.snapshot
    messages = (loaded(message.raw) for message in snapshot.messages[: snapshot.head])
    if not any(tells_summary(text_of(message)) for message in messages):
        return faults
    summary = replace(
        edited,
        rule=history.COMPACTED,
        key="summary",
        said="Old messages were replaced by a summary in the system prompt.",
        fix="",
    )
    others = [each for each in faults if each.rule not in (head.EDITED, history.REMOVED)]
    return [summary, *others]


def _with_costs(turn: Turn, faults: list[Fault]) -> Iterator[Sighting]:
    for number, fault in enumerate(faults):
        if number == 0:
            yield fault.seen(turn, lost(turn), "")
        elif not fault.only_alone:
            yield fault.seen(turn, 0, faults[0].rule.code)
