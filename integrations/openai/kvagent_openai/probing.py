"""What is the server, asked once, through the caller's own connections, in two seconds at most?"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextvars import copy_context
from threading import Thread
from time import perf_counter
from typing import Any

from kvagent import Engine
from kvagent.backends import Fetch, Fetched
from kvagent.chat import ChatRequest, Doubt

logger = logging.getLogger("kvagent")

BUDGET_S = 2.0
"""How long a probe may hold up the request before which it is made."""

_CHAT = b"/chat/completions"
_NOTHING = Fetched(0, b"")

# Of the caller's headers, those that belong to the chat request alone.
_CHAT_HEADERS = (
    b"accept",
    b"content-",
    b"idempotency-",
    b"transfer-",
    b"x-kvagent-",
    b"x-stainless-",
)

Gets = Generator[Any, Fetched, None]


def is_due(request: Any) -> bool:
    """Whether the request goes to a server that has something to say of itself."""
    host, path = request.url.host, request.url.path
    return not (host.endswith((".azure.com", ".openai.com")) or "/openai/deployments/" in path)


def ask(
    engine: Engine, bare_send: Callable[..., Any], request: Any, options: Mapping[str, Any]
) -> None:
    """Make the probe; what is not answered in time is left open. Never raises."""

    def fetch(get: Any) -> Fetched:
        try:
            response = bare_send(get, stream=False, **options)
            return Fetched(response.status_code, response.content)
        except Exception:
            logger.debug("kvagent got no answer to GET %s", get.url, exc_info=True)
            return _NOTHING

    def run() -> None:
        try:
            gets = _gets(engine, request)
            get = next(gets, None)
            while get is not None:
                get = gets.send(fetch(get))
        except StopIteration:
            return
        except Exception:
            logger.exception("kvagent could not ask the server what it is")

    # A thread, because the timeouts of an HTTP client bound each step, not the whole.
    try:
        thread = Thread(target=copy_context().run, args=(run,), name="kvagent-probe", daemon=True)
        thread.start()
        thread.join(BUDGET_S)
    except RuntimeError:
        logger.warning("kvagent cannot ask the server what it is: no thread starts", exc_info=True)


async def aask(
    engine: Engine,
    bare_send: Callable[..., Awaitable[Any]],
    request: Any,
    options: Mapping[str, Any],
) -> None:
    """``ask`` for coroutines."""
    from anyio import move_on_after  # the SDK's own dependency

    deadline = perf_counter() + BUDGET_S
    try:
        gets = _gets(engine, request)
        get = next(gets, None)
        while get is not None:
            fetched = _NOTHING
            with move_on_after(max(0, deadline - perf_counter())):
                try:
                    response = await bare_send(get, stream=False, **options)
                    fetched = Fetched(response.status_code, response.content)
                except Exception:
                    logger.debug("kvagent got no answer to GET %s", get.url, exc_info=True)
            get = gets.send(fetched)
    except StopIteration:
        return
    except Exception:
        logger.exception("kvagent could not ask the server what it is")


def _gets(engine: Engine, request: Any) -> Gets:
    """The requests of a probe, one after the other; after the deadline none is made any more."""
    deadline = perf_counter() + BUDGET_S
    flow = engine.probe(_model_of(request))
    fetch = next(flow, None)
    while fetch is not None:
        left = deadline - perf_counter()
        fetched = (yield _get(request, fetch, left)) if left > 0 else _NOTHING
        try:
            fetch = flow.send(fetched)
        except StopIteration:
            return


def _model_of(request: Any) -> str | None:
    try:
        return ChatRequest.parse(request.content).model or None
    except Doubt:
        return None


def _get(request: Any, fetch: Fetch, timeout_s: float) -> Any:
    """A GET beside a chat request: same server, same key, same query, its own timeout."""
    path, _, query = request.url.raw_path.partition(b"?")
    base = path.removesuffix(_CHAT)
    if fetch.base == "root":
        base = base.removesuffix(b"/v1")
    path = base + fetch.path.encode()
    if query:
        path += (b"&" if b"?" in path else b"?") + query
    return type(request)(
        "GET",
        request.url.copy_with(raw_path=path),
        headers=[
            (name, value)
            for name, value in request.headers.raw
            if not name.lower().startswith(_CHAT_HEADERS)
        ],
        extensions={
            "timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout_s),
        },
    )
