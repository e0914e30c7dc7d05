"""Which conversation does this code run for, when the caller says so?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """An explicit conversation id, and the tenant whose memory it may use."""

    id: str
    namespace: str | None = None


_current: ContextVar[Session | None] = ContextVar("kvagent_session", default=None)


@contextmanager
def session(id: str, *, namespace: str | None = None) -> Iterator[Session]:
    """Name the conversation of every request made inside the block.

    ``id`` is any non-empty string, such as a ticket number. ``namespace`` overrides the engine's
    own: what one namespace remembers never reaches another. Follows threads and asyncio tasks the
    way context variables do: a task inherits it, a plain thread does not.
    """
    if not id:
        raise ValueError("kvagent.session: the id is empty; leave the block out to have kvagent "
                         "recognise conversations by their content")  # fmt: skip
    token = _current.set(Session(id, namespace))
    try:
        yield Session(id, namespace)
    finally:
        _current.reset(token)


def current_session() -> Session | None:
    """The innermost ``kvagent.session`` block this code runs in, or None."""
    return _current.get()
