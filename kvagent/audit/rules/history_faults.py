"""What of the messages that were sent before is not what it was in the request before?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kvagent.audit.changes.messages import Change, What, changes
from kvagent.audit.changes.moved import is_part_moved, is_whole_moved
from kvagent.audit.changes.texts import Texts, joined, parts_of, place_in
from kvagent.audit.difference import first_field, loaded
from kvagent.audit.rules import history
from kvagent.audit.rules.fault import Fault, contrast, first_contrast
from kvagent.audit.rules.roles import called, called_first
from kvagent.audit.rules.written_faults import written
from kvagent.audit.sent import Known, Snapshot
from kvagent.audit.turns import Turn
from kvagent.chat import text_of

# Faults of one rule that are told of one turn; the last one counts for those that are not.
_TOLD = 3

# Changes of one kind that are looked at in one turn.
_LOOKED = 32

# A result of so many characters that got so many times shorter was cleared.
_LONG = 200
_TIMES = 2


class HistoryFaults:
    """Looks at the messages behind the head."""

    def __init__(self) -> None:
        self._texts = Texts()

    def faults(self, turn: Turn) -> list[Fault]:
        """In the order of the prompt."""
        old, new = turn.placed.before, turn.placed.snapshot
        if old is None or turn.placed.common == len(old.messages) or turn.kind == "branched":
            return []
        if turn.kind == "compacted" or turn.request.departs == "compaction":
            return [_compacted(turn, old, new)]
        if turn.request.departs == "branch":
            return []
        if all(one is other for one, other in zip(old.body, new.body, strict=False)):
            return []
        few = _Few()
        for change in changes(old.body, new.body):
            if few.looked_at[change.what] < _LOOKED:
                few.add(change.what, self._of(turn, old, new, change))
            else:
                few.more(change)
        return few.told()

    def _of(self, turn: Turn, old: Snapshot, new: Snapshot, change: Change) -> Iterator[Fault]:
        at = new.head + change.new.start
        if change.what == "written":
            yield from written(turn, at, old.body[change.old.start], new.messages[at])
        elif change.what == "edited":
            yield self._edited(turn, at, old, change.old.start)
        elif change.what == "inserted":
            yield _inserted(turn, at)
        else:
            yield _removed(turn, at, old, change)

    def _edited(self, turn: Turn, at: int, old: Snapshot, place: int) -> Fault:
        """Another text in an old message."""
        was, now = old.body[place], turn.placed.snapshot.messages[at]
        before, message = loaded(was.raw), turn.request.messages[at]
        parts = parts_of(message)
        one, other = joined(parts_of(before)), joined(parts)
        found = self._texts.changes(one, other)
        if not found or was.role != now.role:
            # Not the text: a call, a picture, the role.
            field, one, other = first_field(before, loaded(now.raw))
            character, texts = first_contrast(one, other)
        else:
            change = min(found, key=lambda each: each.after)
            field, character = place_in(parts, change.after)
            texts = contrast(one, other, change.before, change.after)
        fault = Fault(
            history.EDITED,
            ("edited", now.role),
            f"{called_first(now.role)} in the history was changed.",
            message=at,
            field=field,
            character=character,
            contrast=texts,
        )
        if is_part_moved(was, now, turn.placed.snapshot.messages[at + 1 :]):
            return replace(
                fault,
                rule=history.MOVED,
                key="part",
                said="Text was taken out of an old message; a newer one has it, or one of its kind.",
            )
        if found and {change.what for change in found} == {"clock"}:
            said = f"A clock in {called(now.role)} in the history changes."
            return replace(fault, key=("clock", now.role), said=said)
        if turn.request.departs == "clearing" or _is_shortened(was, now, one, other):
            if turn.request.departs != "clearing" and _is_newest(old.body, place):
                return replace(
                    fault,
                    key="newest",
                    said="A result was shortened after it had been sent.",
                    fix="Shorten a result before it is sent for the first time, and then leave it.",
                )
            return replace(
                fault,
                rule=history.COMPACTED,
                key="cleared",
                said="Old results were replaced by shorter texts.",
            )
        return fault


class _Few:
    """Of many faults with one rule and key the first ones, and the rest as a count."""

    def __init__(self) -> None:
        self.looked_at: Counter[What] = Counter()
        self._told: list[Fault] = []
        self._untold: Counter[int] = Counter()
        self._places: dict[object, list[int]] = {}
        self._last: dict[What, int] = {}

    def add(self, what: What, faults: Iterable[Fault]) -> None:
        """What was found in one change."""
        self.looked_at[what] += 1
        for fault in faults:
            mine = self._places.setdefault((fault.rule.code, fault.key), [])
            if len(mine) < _TOLD:
                mine.append(len(self._told))
                self._told.append(fault)
            else:
                self._untold[mine[-1]] += fault.count
            self._last[what] = mine[-1]

    def more(self, change: Change) -> None:
        """A change that is not looked at: it is taken for what the last one of its kind was."""
        if change.what in self._last:
            self._untold[self._last[change.what]] += 1

    def told(self) -> list[Fault]:
        """Those that are told."""
        return [
            replace(fault, count=fault.count + self._untold[at]) if at in self._untold else fault
            for at, fault in enumerate(self._told)
        ]


def _inserted(turn: Turn, at: int) -> Fault:
    message = turn.request.messages[at]
    return Fault(
        history.INSERTED,
        message.get("role"),
        f"{called_first(message.get('role'))} was put in front of old ones.",
        message=at,
        excerpt=text_of(message),
    )


def _removed(turn: Turn, at: int, old: Snapshot, change: Change) -> Fault:
    """Messages that are gone, though what stood behind them is sent again."""
    gone = old.body[change.old.start : change.old.stop]
    first = loaded(gone[0].raw)
    fault = Fault(
        history.REMOVED,
        "",
        "Old messages were left out in front of others.",
        message=at,
        excerpt=text_of(first),
    )
    if len(gone) == 1 and is_whole_moved(gone[0], turn.placed.snapshot.messages[at + 1 :]):
        return replace(
            fault,
            rule=history.MOVED,
            key="whole",
            said="A message was taken out of its place and came back as a newer one.",
        )
    return fault


def _is_shortened(was: Known, now: Known, one: str, other: str) -> bool:
    """Whether a tool's result was cut down or cleared."""
    if was.role != now.role or now.role not in ("tool", "function"):
        return False
    return len(one) >= _LONG and len(other) * _TIMES <= len(one)


def _is_newest(body: Sequence[Known], place: int) -> bool:
    """Whether no answer stood behind a message when it was sent last."""
    return all(message.role != "assistant" for message in body[place + 1 :])


def _compacted(turn: Turn, old: Snapshot, new: Snapshot) -> Fault:
    """A summary in the place of old messages."""
    at = turn.placed.common
    before = loaded(old.messages[at].raw) if at < len(old.messages) else {}
    message = turn.request.messages[at] if at < len(new.messages) else {}
    field, one, other = first_field(before, message)
    character, texts = first_contrast(one, other)
    return Fault(
        history.COMPACTED,
        "summary",
        "Old messages were replaced by a summary.",
        message=at if message else None,
        field=field if message else "",
        character=character if message else None,
        contrast=texts,
    )
