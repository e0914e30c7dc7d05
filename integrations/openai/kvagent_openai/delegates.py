"""How does a client get another `send` while it keeps its connections, hooks and settings?

By an HTTP client that stands in front of the given one. It has the class of the same library
(the SDK and the library look at it), but none of its state: whatever is read of it or set on it is
the given client's.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from kvagent import Engine
from kvagent_openai.exchange import asend, send
from kvagent_openai.library import library_of


def delegate(http_client: Any, engine: Engine) -> Any:
    """An HTTP client that sends chat requests through ``engine``, and the rest as they are."""
    inner = getattr(http_client, "kvagent_inner", http_client)
    library = library_of(inner)
    if isinstance(inner, library.AsyncClient):
        return _derived(AsyncDelegate, library.AsyncClient)(inner, engine)
    return _derived(SyncDelegate, library.Client)(inner, engine)


@cache
def _derived(delegate: type, base: type) -> Any:
    return type(delegate.__name__, (delegate, base), {"__module__": __name__})


class _Delegate:
    """What both kinds share: all that is not its own is the inner client's."""

    kvagent_inner: Any
    kvagent_engine: Engine

    def __init__(self, inner: Any, engine: Engine) -> None:
        vars(self).update(kvagent_inner=inner, kvagent_engine=engine)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("kvagent_"):  # not made yet: copy and pickle ask before
            raise AttributeError(name)
        return getattr(self.kvagent_inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.kvagent_inner, name, value)

    def build_request(self, *args: Any, **options: Any) -> Any:
        return self.kvagent_inner.build_request(*args, **options)

    @property
    def _bare_send(self) -> Any:
        # A KVHttpxClient has an engine of its own, which this one takes the place of.
        inner = self.kvagent_inner
        return getattr(inner, "kvagent_bare_send", None) or inner.send


class SyncDelegate(_Delegate):
    """In front of a ``Client``."""

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        return send(self.kvagent_engine, self._bare_send, request, stream, options)

    def close(self) -> None:
        self.kvagent_inner.close()

    def __enter__(self) -> Self:
        self.kvagent_inner.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.kvagent_inner.__exit__(*raised)


class AsyncDelegate(_Delegate):
    """In front of an ``AsyncClient``."""

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        return await asend(self.kvagent_engine, self._bare_send, request, stream, options)

    async def aclose(self) -> None:
        await self.kvagent_inner.aclose()

    async def __aenter__(self) -> Self:
        await self.kvagent_inner.__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.kvagent_inner.__aexit__(*raised)
