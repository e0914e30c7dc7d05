"""Is a request in the hands of an engine already, so that one further down lets it pass?

A framework's middleware decides about a prompt before the HTTP client below sees it. Two engines
that decide about one conversation would take each other's edits for the agent's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_aside: ContextVar[bool] = ContextVar("kvagent_aside", default=False)


@contextmanager
def aside() -> Iterator[None]:
    """Requests that are made inside the block pass wrapped clients as they are.

    Follows threads and asyncio tasks the way context variables do.
    """
    token = _aside.set(True)
    try:
        yield
    finally:
        _aside.reset(token)


def stands_aside() -> bool:
    """Whether this code runs inside an ``aside`` block."""
    return _aside.get()
