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
from kvagent.audit.history import is_same_message
from kvagent.audit.sent import Known

What = Literal["written", "edited", "removed", "inserted"]
"""``written``: the same message in other bytes; ``edited``: another text in its place."""

# So long a message is not written twice by chance.
_UNIQUE_BYTES = 100

# Of a message that comes often so many places are tried.
_TRIED = 8


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

    def _is_one(self, at: int, to: int) -> bool:
        """Whether nothing but this message is another: the next ones are the same."""
        if at + 1 >= len(self._old) or to + 1 >= len(self._new):
            return False
        if self._old[at].role != self._new[to].role:
            return False
        return self._old[at + 1].gist == self._new[to + 1].gist

    def _apart(self, at: int, to: int) -> tuple[int, int]:
        """How many were taken out, or put in, until both have the same message again."""
        if self._old_places is None:
            self._old_places = _places(self._old)
            self._new_places = _places(self._new)
        surely = (
            _next(self._old_places, self._old, at, self._new, to, surely=True),
            _next(self._new_places, self._new, to, self._old, at, surely=True),
        )
        if surely == (None, None):
            if self._is_one(at, to):
                return 0, 0
            surely = (
                _next(self._old_places, self._old, at, self._new, to, surely=False),
                _next(self._new_places, self._new, to, self._old, at, surely=False),
            )
        gone, come = surely
        if gone is not None and (come is None or gone <= come):
            return gone, 0
        return 0, come or 0


def _next(
    places: dict[bytes, list[int]],
    side: Sequence[Known],
    at: int,
    other: Sequence[Known],
    to: int,
    *,
    surely: bool,
) -> int | None:
    """How far behind ``at`` the message stands that is ``other[to]``.

    Surely: if it is one that is not written twice by chance.
    """
    message = other[to]
    if surely and not (message.is_own or len(message.raw) > _UNIQUE_BYTES):
        return None
    found = places.get(message.gist, [])
    for place in found[bisect_left(found, at) :][:_TRIED]:
        if surely or _goes_on_alike(side, place, other, to):
            return place - at
    return None


def _goes_on_alike(side: Sequence[Known], place: int, other: Sequence[Known], to: int) -> bool:
    """Whether the next messages are the same, too: a short question is asked many times."""
    if to + 1 < len(other) and place + 1 < len(side):
        return other[to + 1].gist == side[place + 1].gist
    return to + 1 == len(other) and place + 1 == len(side)


def _places(messages: Sequence[Known]) -> dict[bytes, list[int]]:
    places: dict[bytes, list[int]] = {}
    for at, message in enumerate(messages):
        places.setdefault(message.gist, []).append(at)
    return places
