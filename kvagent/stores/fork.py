"""What must hold still while the process forks?

A lock that another thread holds at the moment of a fork stays locked for ever in the child. And a
SQLite connection must not be carried into a child at all: both processes would believe that they
hold the same locks on the file. So before a fork every store is brought to rest, and after it
parent and child go on from there, each with connections of its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Resting(Protocol):
    """What can be brought to rest. Nobody holds the locks of two such objects at once."""

    lock: threading.RLock

    def rest(self) -> None:
        """Put away what a child must not inherit. Called with the lock held."""


_resting: weakref.WeakSet[Resting] = weakref.WeakSet()
_held: list[Resting] = []
# Held all through a fork: two threads that fork at once do so one after the other.
_registry = threading.RLock()


def rest_in_forks(thing: Resting) -> None:
    """Bring `thing` to rest before each fork of this process, for as long as it lives."""
    with _registry:
        _resting.add(thing)


def _before() -> None:
    _registry.acquire()
    for thing in list(_resting):
        thing.lock.acquire()
        _held.append(thing)
        thing.rest()


def _after() -> None:
    while _held:
        _held.pop().lock.release()
    _registry.release()


if hasattr(os, "register_at_fork"):  # not on Windows, which knows no fork
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
