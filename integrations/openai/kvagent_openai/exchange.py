"""What happens to one request on its way to the server, and to the answer on its way back?

The four clients (sync and async, wrapped and `KVHttpxClient`) all send through here. What is no
chat request passes as the very object it is, and so does one that the engine does not change.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from kvagent import Engine
from kvagent.aside import stands_aside
from kvagent.flow import Answer, Call, Flow, Settle, adrive, drive
from kvagent_openai import probing
from kvagent_openai.tap import Follow, reply_of, tapped

logger = logging.getLogger("kvagent")

SESSION = b"x-kvagent-session"

# A body that somebody signed or counted must stay as it is.
_SIGNATURES = frozenset(
    {b"x-amz-content-sha256", b"content-digest", b"content-encoding", b"content-md5", b"digest"}
)


def send(
    engine: Engine,
    bare_send: Callable[..., Any],
    request: Any,
    stream: bool,
    options: Mapping[str, Any],
) -> Any:
    """Send a request with ``bare_send``; a chat request goes through the engine.

    ``options`` are what the HTTP client's ``send`` takes beside ``stream``. Errors of the network
    come out as they are; errors of kvagent are logged, and the request goes out as it came.
    """
    exchange = _opened(engine, request)
    if exchange is None:
        return bare_send(request, stream=stream, **options)
    if engine.to_probe and probing.is_due(request):
        probing.ask(engine, bare_send, request, options)

    def deliver(call: Call) -> tuple[Answer, Any]:
        outgoing = exchange.outgoing(call)
        try:
            response = exchange.response = bare_send(outgoing, stream=stream, **options)
            if exchange.is_to_be_read(call):
                response.read()
        except BaseException as error:
            exchange.network_error = error
            raise
        return exchange.answered(response), response

    def follow(flow: Flow) -> Any:
        response, settle = drive(flow, deliver)
        while (more := exchange.settled(response, settle)) is not None:
            response, settle = drive(more, deliver)
        return exchange.received(response, settle, follow, in_async=False)

    try:
        return follow(exchange.turn())
    except Exception as error:
        if exchange.network_error is not None:
            raise
        response = exchange.rescued(error)
        return bare_send(request, stream=stream, **options) if response is None else response


async def asend(
    engine: Engine,
    bare_send: Callable[..., Awaitable[Any]],
    request: Any,
    stream: bool,
    options: Mapping[str, Any],
) -> Any:
    """``send`` for coroutines."""
    exchange = _opened(engine, request)
    if exchange is None:
        return await bare_send(request, stream=stream, **options)
    if engine.to_probe and probing.is_due(request):
        await probing.aask(engine, bare_send, request, options)

    async def deliver(call: Call) -> tuple[Answer, Any]:
        outgoing = exchange.outgoing(call)
        try:
            response = exchange.response = await bare_send(outgoing, stream=stream, **options)
            if exchange.is_to_be_read(call):
                await response.aread()
        except BaseException as error:
            exchange.network_error = error
            raise
        return exchange.answered(response), response

    async def follow(flow: Flow) -> Any:
        response, settle = await adrive(flow, deliver)
        while (more := exchange.settled(response, settle)) is not None:
            response, settle = await adrive(more, deliver)
        return exchange.received(response, settle, follow, in_async=True)

    try:
        return await follow(exchange.turn())
    except Exception as error:
        if exchange.network_error is not None:
            raise
        response = exchange.rescued(error)
        return await bare_send(request, stream=stream, **options) if response is None else response


def _opened(engine: Engine, request: Any) -> Exchange | None:
    """The exchange that a request begins; None if it is no chat request in JSON."""
    if request.method != "POST" or stands_aside():
        return None
    try:
        if not request.url.path.endswith("/chat/completions"):
            return None
        headers = {name.lower(): value for name, value in request.headers.raw}
        if not headers.get(b"content-type", b"").lower().startswith(b"application/json"):
            return None
        if not _SIGNATURES.isdisjoint(headers):
            return None
        return Exchange(engine, request, request.content, headers)
    except Exception:
        # A body that is a stream, among others.
        logger.debug("kvagent cannot read a request; it goes out as it came", exc_info=True)
        return None


class Exchange:
    """One chat request and its answer, without the sending."""

    __slots__ = (
        "_began",
        "_content",
        "_engine",
        "_request",
        "_session",
        "_ttft_s",
        "_withheld",
        "network_error",
        "response",
    )

    def __init__(
        self, engine: Engine, request: Any, content: bytes, headers: Mapping[bytes, bytes]
    ) -> None:
        self._engine = engine
        self._request = request
        self._content = content
        self._session = headers.get(SESSION)
        self._began = 0.0
        self._ttft_s = 0.0
        self._withheld = False
        self.response: Any = None
        self.network_error: BaseException | None = None

    def turn(self) -> Flow:
        """The engine's part."""
        session = self._session.decode(errors="replace") if self._session else None
        return self._engine.turn(self._content, session=session)

    def outgoing(self, call: Call) -> Any:
        """The request to be sent: the caller's own, unless something is to change."""
        request = self._request
        if call.changed or call.headers or self._session is not None:
            request = _rebuilt(request, call.body, call.headers)
        self._began = perf_counter()
        return request

    def answered(self, response: Any) -> Answer:
        """What the engine is told of a response that has just begun."""
        self._ttft_s = perf_counter() - self._began
        status = response.status_code
        return Answer(status, response.content) if status >= 400 else Answer(status)

    def is_to_be_read(self, call: Call) -> bool:
        """Whether the response is wanted whole before anybody has it."""
        self._withheld = bool(call.withheld)
        response = self.response
        if response.status_code >= 400:
            return True  # the SDK would read it now itself
        kind = response.headers.get("content-type", "").lower()
        return self._withheld and "text/event-stream" not in kind

    def settled(self, response: Any, settle: Settle) -> Flow | None:
        """Keep the reply, if it is there; a flow goes on from one that was for kvagent."""
        if response.status_code >= 400 or not response.is_closed:
            return None
        try:
            return settle(reply_of(response, response.content), self._ttft_s)
        except Exception:
            logger.exception("kvagent failed on a response; the caller has it unchanged")
            return None

    def received(self, response: Any, settle: Settle, follow: Follow, *, in_async: bool) -> Any:
        """The response for the caller; the reply of a stream is kept when it is over."""
        if response.status_code >= 400 or response.is_closed:
            return response
        try:
            response.stream = tapped(
                response,
                settle,
                self._began,
                in_async=in_async,
                follow=follow if self._withheld else None,
            )
        except Exception:
            logger.exception("kvagent failed on a response; the caller has it unchanged")
        return response

    def rescued(self, error: Exception) -> Any:
        """After an error of kvagent's own: the response, or None if the request did not go out."""
        logger.error("kvagent failed on a request; nothing of it is changed", exc_info=error)
        return self.response


def _rebuilt(request: Any, body: bytes, added: Mapping[str, str]) -> Any:
    """A request of the same library and class with another body and more headers.

    The session's own header stays here, and a header that the caller set goes before an added one.
    """
    length = str(len(body)).encode()
    headers = [
        (name, length if name.lower() == b"content-length" else value)
        for name, value in request.headers.raw
        if name.lower() != SESSION
    ]
    there = {name.lower() for name, _ in headers}
    headers += [
        (name.encode(), value.encode())
        for name, value in added.items()
        if name.lower().encode() not in there
    ]
    return type(request)(
        request.method,
        request.url,
        headers=headers,
        content=body,
        extensions=request.extensions,
    )
