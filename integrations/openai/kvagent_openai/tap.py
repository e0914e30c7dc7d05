"""What did the server answer, read without touching a byte of it?"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from time import perf_counter
from typing import Any

import orjson

from kvagent.chat import ChatReply
from kvagent.flow import Flow, Settle
from kvagent_openai.library import library_of
from kvagent_openai.sieve import Sieve

logger = logging.getLogger("kvagent")

# A proxy's web page says nothing after so many bytes.
_LONGEST_ERROR = 1_000

Follow = Callable[[Flow], Any]
"""Goes on with a flow and returns the response that it leads to; awaited in coroutines."""


def tapped(
    response: Any,
    settle: Settle,
    began: float,
    *,
    in_async: bool,
    follow: Follow | None = None,
) -> Any:
    """A stream for the response that passes its own on, and settles once it is over.

    ``began`` is the ``perf_counter`` at which the request went out. Where a reply may be for
    kvagent, ``follow`` gives the response that the caller gets in its place.
    """
    receipt = Receipt(response, settle, began)
    library = library_of(response)
    base = library.AsyncByteStream if in_async else library.SyncByteStream
    tap = _derived(AsyncTap if in_async else SyncTap, base)
    return tap(response.stream, receipt, follow if _is_stream(response) else None)


def _is_stream(response: Any) -> bool:
    """Whether it is server-sent events that can be read as they come."""
    kind = response.headers.get("content-type", "").lower()
    return "text/event-stream" in kind and not response.headers.get("content-encoding")


def refusal(response: Any) -> bytes:
    """What came in the middle of a stream and is none, as an event of it that tells of an error."""
    try:
        error = orjson.loads(response.content)["error"]
    except (KeyError, TypeError, ValueError):
        message = response.content[:_LONGEST_ERROR].decode(errors="replace").strip()
        error = {"message": message or f"status {response.status_code}"}
    if isinstance(error, dict):
        error = {"code": response.status_code, **error}
    return b"data: " + orjson.dumps({"error": error}) + b"\n\n"


@cache
def _derived(tap: type, base: type) -> Any:
    # The library looks whether a stream is of its own class.
    return type(tap.__name__, (tap, base), {"__module__": __name__})


def reply_of(response: Any, body: bytes) -> ChatReply:
    """The reply in a body that is decoded already."""
    if "text/event-stream" in response.headers.get("content-type", "").lower():
        return ChatReply.parse_stream(body)
    return ChatReply.parse(body)


class Receipt:
    """The chunks of one answer as they came off the wire, until they are read, once."""

    __slots__ = ("_began", "_chunks", "_response", "_settle", "_ttft_s")

    def __init__(self, response: Any, settle: Settle, began: float) -> None:
        self._response = response
        self._settle: Settle | None = settle
        self._began = began
        self._ttft_s: float | None = None
        self._chunks: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        if self._ttft_s is None:
            self._ttft_s = perf_counter() - self._began
        self._chunks.append(chunk)

    def close(self) -> Flow | None:
        """The answer is over: ended, broken off, or given up by the caller.

        A flow goes on from it where the reply was for kvagent.
        """
        settle, self._settle = self._settle, None
        if settle is None:
            return None
        try:
            reply = reply_of(self._response, self._decoded())
        except Exception:
            logger.exception("kvagent could not read an answer; the caller has it unchanged")
            reply = ChatReply()
        self._chunks.clear()
        return settle(reply, self._ttft_s)

    def end(self) -> None:
        """The answer is over, and nobody goes on from it: what it asks is the caller's."""
        flow = self.close()
        if flow is not None:
            next(flow)
            flow.close()

    def _decoded(self) -> bytes:
        body = b"".join(self._chunks)
        encoding = self._response.headers.get("content-encoding")
        if not encoding or not body:
            return body
        library = library_of(self._response)
        copy = library.Response(200, headers={"content-encoding": encoding}, content=body)
        decoded: bytes = copy.content
        return decoded


class SyncTap:
    """Passes each chunk of a stream on as it comes, unless it may be for kvagent."""

    def __init__(self, stream: Any, receipt: Receipt, follow: Follow | None) -> None:
        self._stream = stream
        self._receipt = receipt
        self._follow = follow

    def __iter__(self) -> Iterator[bytes]:
        sieve = Sieve() if self._follow is not None else None
        try:
            for chunk in self._stream:
                self._receipt.add(chunk)
                passed = chunk if sieve is None else sieve.passed(chunk)
                if passed:
                    yield passed
            if sieve is not None and self._follow is not None:
                flow = self._receipt.close()
                if flow is None:
                    yield sieve.held()
                else:
                    self._stream.close()
                    response = self._follow(flow)
                    self._stream, self._follow = response.stream, None
                    yield from [refusal(response)] if response.is_closed else self._stream
        finally:
            self._receipt.end()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._receipt.end()


class AsyncTap:
    """``SyncTap`` for coroutines."""

    def __init__(self, stream: Any, receipt: Receipt, follow: Follow | None) -> None:
        self._stream = stream
        self._receipt = receipt
        self._follow = follow

    async def __aiter__(self) -> AsyncIterator[bytes]:
        sieve = Sieve() if self._follow is not None else None
        try:
            async for chunk in self._stream:
                self._receipt.add(chunk)
                passed = chunk if sieve is None else sieve.passed(chunk)
                if passed:
                    yield passed
            if sieve is not None and self._follow is not None:
                flow = self._receipt.close()
                if flow is None:
                    yield sieve.held()
                else:
                    await self._stream.aclose()
                    response = await self._follow(flow)
                    self._stream, self._follow = response.stream, None
                    if response.is_closed:
                        yield refusal(response)
                    else:
                        async for chunk in self._stream:
                            yield chunk
        finally:
            self._receipt.end()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._receipt.end()
