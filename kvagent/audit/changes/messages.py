"""What became of each message that was sent before?

Both lists are walked from the first message on that is not the same. Where they part, the nearest
message that both have tells what was put in or taken out. What follows the last one that was sent
before is new, and what was left away at the end was gone back over: neither is a change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from kvagent.audit.changes.moved import is_part_moved
from kvagent.audit.conversations import is_same_message
from kvagent.audit.sent import Known

What = Literal["written", "edited", "removed", "inserted"]
"""``written``: the same message in other bytes; ``edited``: another text in its place."""

# So long a message is not written twice by chance.
_UNIQUE_BYTES = 100


@dataclass(frozen=True, slots=True)
class Change:
    """What became of some messages, by their numbers in both lists."""

    what: What
    old: range
    """Empty for what was put in: in front of which one."""
    new: range
    """Empty for what was taken out: in front of which one."""


def changes(old: Sequence[Known], new: Sequence[Known]) -> list[Change]:
    """What became of the messages, in their order."""
    return list(_Walk(old, new).changes())


class _Walk:
    def __init__(self, old: Sequence[Known], new: Sequence[Known]) -> None:
        self._old, self._new = old, new
        self._old_places: dict[bytes, list[int]] | None = None
        self._new_places: dict[bytes, list[int]] = {}

    def changes(self) -> Iterator[Change]:
        old, new = self._old, self._new
        at = to = 0
        edited: list[Change] = []
        while at < len(old) and to < len(new):
            one, other = old[at], new[to]
            if one is other or one.gist == other.gist:
                yield from edited
                edited.clear()
                if one is not other and one.raw != other.raw:
                    yield Change("written", range(at, at + 1), range(to, to + 1))
                at, to = at + 1, to + 1
                continue
            gone, come = self._apart(at, to)
            if come and is_part_moved(one, other, new[to + 1 :]):
                come = 0
            if gone or come:
                yield from edited
                edited.clear()
            if gone:
                yield Change("removed", range(at, at + gone), range(to, to))
                at += gone
            elif come:
                yield Change("inserted", range(at, at), range(to, to + come))
                to += come
            else:
                edited.append(Change("edited", range(at, at + 1), range(to, to + 1)))
                at, to = at + 1, to + 1
        # Nothing that was sent before stands behind these: only what is surely the same message
        # was edited, the others were left for something new.
        for change in edited:
            one, other = old[change.old.start], new[change.new.start]
            if not is_same_message(one, other):
                if not is_part_moved(one, other, new[change.new.stop :]):
                    break
            yield change

    def _apart(self, at: int, to: int) -> tuple[int, int]:
        """How many were taken out, or put in, until both have the same message again."""
        if self._old_places is None:
            self._old_places = _places(self._old)
            self._new_places = _places(self._new)
        gone = self._next(self._old_places, self._old, at, self._new, to)
        come = self._next(self._new_places, self._new, to, self._old, at)
        if gone is not None and (come is None or gone <= come):
            return gone, 0
        return 0, come or 0

    def _next(
        self,
        places: dict[bytes, list[int]],
        side: Sequence[Known],
        at: int,
        other: Sequence[Known],
        to: int,
    ) -> int | None:
        """How far behind ``at`` the message stands that is ``other[to]``."""
        message = other[to]
        found = places.get(message.gist)
        if found is None:
            return None
        for place in found[bisect_left(found, at) :][:8]:
            if message.is_own or len(message.raw) > _UNIQUE_BYTES:
                return place - at
            # A short question is asked many times.
            if to + 1 < len(other) and place + 1 < len(side):
                if other[to + 1].gist == side[place + 1].gist:
                    return place - at
            elif to + 1 == len(other) or place + 1 == len(side):
                return place - at
        return None


def _places(messages: Sequence[Known]) -> dict[bytes, list[int]]:
    places: dict[bytes, list[int]] = {}
    for at, message in enumerate(messages):
        places.setdefault(message.gist, []).append(at)
    return places
