"""Which installed adapter can wrap this client?"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

Client = TypeVar("Client")


@runtime_checkable
class Adapter(Protocol):
    """What stands behind an entry point of the group ``kvagent.adapters``."""

    def accepts(self, client: object) -> bool:
        """Whether it knows this kind of client; must not import the client's library."""

    def wrap(self, client: Any, **options: Any) -> Any:
        """A client of the same type whose chat requests go through an engine."""


def wrap(client: Client, **options: Any) -> Client:
    """Wrap a client so that the server keeps what it has seen; returns one of the same type.

    The given client stays as it was. Options: ``policy``, ``store``, ``namespace``, ``on_event``,
    ``stages``, ``summarizer``, or ``engine`` to share one. Raises ``TypeError`` for a client that no
    installed adapter knows, and for an option that cannot be what it should.
    """
    if isinstance(client, type):
        name = client.__name__
        raise TypeError(f"kvagent.wrap: give a client, not its class: wrap({name}(...))")
    from importlib.metadata import entry_points  # costs a sixth of kvagent's import

    points = entry_points(group="kvagent.adapters")
    for point in points:
        adapter: Adapter = point.load()
        if adapter.accepts(client):
            wrapped: Client = adapter.wrap(client, **options)
            return wrapped
    if points:
        hint = f"installed: {', '.join(sorted(point.name for point in points))}"
    else:
        hint = "none is installed; for OpenAI clients: pip install 'kvagent[openai]'"
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    raise TypeError(f"kvagent.wrap: no adapter for a {kind} ({hint})")
