"""What was used of late, of more than memory should hold?

A mapping in two generations: when the young one is full, the old one is forgotten and the young one
takes its place. What is used moves to the young one, so only what was not used for long is lost.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Holds at most twice ``room``, in whatever unit ``put`` says of each value."""

    __slots__ = ("_old", "_room", "_used", "_young")

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._young: dict[K, tuple[V, int]] = {}
        self._old: dict[K, tuple[V, int]] = {}

    def get(self, key: K) -> V | None:
        """The value, if it is still there."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Set a value that takes so much room."""
        before = self._young.get(key)
        if before is not None:
            self._used -= before[1]
        elif self._old:
            self._old.pop(key, None)
        if self._used + size > self._room and self._young:
            self._old, self._young, self._used = self._young, {}, 0
            self._old.pop(key, None)
        self._young[key] = value, size
        self._used += size

    def values(self) -> list[V]:
        """All that is held, what was used first comes first."""
        return [value for part in (self._old, self._young) for value, _ in part.values()]
