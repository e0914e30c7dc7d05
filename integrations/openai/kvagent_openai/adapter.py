"""How does a client of the OpenAI SDK come to send its chat requests through an engine?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from kvagent import Engine, Event, Policy, Stage, Store
from kvagent.summaries import Summarize
from kvagent_openai.delegates import delegate

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

Client = TypeVar("Client", bound="OpenAI | AsyncOpenAI")


def accepts(client: object) -> bool:
    """Whether it is a client of the OpenAI SDK, or of a class derived from one."""
    return any(
        kind.__qualname__ in {"OpenAI", "AsyncOpenAI"} and kind.__module__.split(".")[0] == "openai"
        for kind in type(client).__mro__
    )


def wrap(
    client: Client,
    *,
    policy: Policy | None = None,
    store: Store | str | PathLike[str] | None = None,
    namespace: str = "",
    on_event: Callable[[Event], object] | None = None,
    stages: Sequence[Stage] | None = None,
    summarizer: Summarize | None = None,
    engine: Engine | None = None,
) -> Client:
    """A client like the given one, whose chat requests go through an engine.

    It shares the connections of the given client, which stays as it was: to close one is to close
    both, as with the SDK's own copies. Give the options of an engine, or one engine to several
    clients of the same server. A client that is wrapped already is returned as it is, unless
    options or another engine are given: these then take the place of the earlier ones.
    """
    if not accepts(client):
        kind = f"{type(client).__module__}.{type(client).__qualname__}"
        raise TypeError(
            f"kvagent_openai.wrap: a {kind} is no client of the OpenAI SDK; frameworks that take "
            "an http_client can be given a KVHttpxClient or KVAsyncHttpxClient"
        )
    http_client = client._client
    current = getattr(http_client, "kvagent_engine", None)
    given = (engine, policy, store, on_event, stages, summarizer)
    if current is not None and (
        engine is current or (not namespace and all(option is None for option in given))
    ):
        return client
    engine = engine_for(engine, policy, store, namespace, on_event, stages, summarizer)
    # Not the client's own copy(): that one calls the constructor, which subclasses change, and
    # leaves out what they added.
    wrapped = copy(client)
    for name in list(vars(wrapped)):
        if isinstance(getattr(type(client), name, None), cached_property):
            del vars(wrapped)[name]  # such as `chat`, which holds on to the client it was made for
    vars(wrapped)["_client"] = delegate(http_client, engine)
    return wrapped


def engine_of(client: object) -> Engine:
    """The engine of a wrapped client or of a ``KVHttpxClient``; ``TypeError`` if it has none."""
    for holder in (client, getattr(client, "_client", None)):
        engine = getattr(holder, "kvagent_engine", None)
        if isinstance(engine, Engine):
            return engine
    kind = f"{type(client).__module__}.{type(client).__qualname__}"
    raise TypeError(
        f"kvagent_openai.engine_of: this {kind} was not wrapped; take the client that "
        "kvagent.wrap returned"
    )


def engine_for(
    engine: Engine | None,
    policy: Policy | None,
    store: Store | str | PathLike[str] | None,
    namespace: str,
    on_event: Callable[[Event], object] | None,
    stages: Sequence[Stage] | None,
    summarizer: Summarize | None,
) -> Engine:
    """The given engine, or one made of the other options; ``TypeError`` where both are given."""
    if engine is None:
        return Engine(
            policy,
            store=store,
            namespace=namespace,
            on_event=on_event,
            stages=stages,
            summarizer=summarizer,
        )
    options: dict[str, Any] = {
        "policy": policy,
        "store": store,
        "namespace": namespace or None,
        "on_event": on_event,
        "stages": stages,
        "summarizer": summarizer,
    }
    superfluous = [name for name, value in options.items() if value is not None]
    if superfluous:
        raise TypeError(
            f"an engine was given together with {', '.join(superfluous)}, which it has already: "
            "set them where the engine is made"
        )
    return engine
