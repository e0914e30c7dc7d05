"""What does a framework get that takes an HTTP client instead of a client of the SDK?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from openai import DefaultAsyncHttpxClient, DefaultHttpxClient

from kvagent import Engine, Event, Policy, Stage, Store
from kvagent.summaries import Summarize
from kvagent_openai.adapter import engine_for
from kvagent_openai.exchange import asend, send


class KVHttpxClient(DefaultHttpxClient):
    """The SDK's HTTP client, with an engine: options as of ``wrap``, the rest as of its base."""

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        store: Store | str | PathLike[str] | None = None,
        namespace: str = "",
        on_event: Callable[[Event], object] | None = None,
        stages: Sequence[Stage] | None = None,
        summarizer: Summarize | None = None,
        engine: Engine | None = None,
        **options: Any,
    ) -> None:
        self.kvagent_engine = engine_for(
            engine, policy, store, namespace, on_event, stages, summarizer
        )
        super().__init__(**options)

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        return send(self.kvagent_engine, self.kvagent_bare_send, request, stream, options)

    def kvagent_bare_send(self, request: Any, **options: Any) -> Any:
        """What ``send`` is without an engine."""
        return super().send(request, **options)


class KVAsyncHttpxClient(DefaultAsyncHttpxClient):
    """The SDK's asynchronous HTTP client, with an engine; see ``KVHttpxClient``."""

    def __init__(
        self,
        *,
        policy: Policy | None = None,
        store: Store | str | PathLike[str] | None = None,
        namespace: str = "",
        on_event: Callable[[Event], object] | None = None,
        stages: Sequence[Stage] | None = None,
        summarizer: Summarize | None = None,
        engine: Engine | None = None,
        **options: Any,
    ) -> None:
        self.kvagent_engine = engine_for(
            engine, policy, store, namespace, on_event, stages, summarizer
        )
        super().__init__(**options)

    async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        return await asend(self.kvagent_engine, self.kvagent_bare_send, request, stream, options)

    async def kvagent_bare_send(self, request: Any, **options: Any) -> Any:
        """What ``send`` is without an engine."""
        return await super().send(request, **options)
