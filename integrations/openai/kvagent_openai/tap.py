"""What did the server answer, read without touching a byte of it?"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from functools import cache
from time import perf_counter
from typing import Any

from kvagent.chat import ChatReply
from kvagent.flow import Settle
from kvagent_openai.library import library_of

logger = logging.getLogger("kvagent")


def tapped(response: Any, settle: Settle, began: float, *, in_async: bool) -> Any:
    """A stream for the response that passes its own on, and settles once it is over.

    ``began`` is the ``perf_counter`` at which the request went out.
    """
    receipt = Receipt(response, settle, began)
    library = library_of(response)
    if in_async:
        return _derived(AsyncTap, library.AsyncByteStream)(response.stream, receipt)
    return _derived(SyncTap, library.SyncByteStream)(response.stream, receipt)


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

    def close(self) -> None:
        """The answer is over: ended, broken off, or given up by the caller."""
        settle, self._settle = self._settle, None
        if settle is None:
            return
        try:
            reply = reply_of(self._response, self._decoded())
        except Exception:
            logger.exception("kvagent could not read an answer; the caller has it unchanged")
            reply = ChatReply()
        self._chunks.clear()
        settle(reply, self._ttft_s)

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
    """Passes each chunk of a stream on as it comes."""

    def __init__(self, stream: Any, receipt: Receipt) -> None:
        self._stream = stream
        self._receipt = receipt

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._stream:
                self._receipt.add(chunk)
                yield chunk
        finally:
            self._receipt.close()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            self._receipt.close()


class AsyncTap:
    """``SyncTap`` for coroutines."""

    def __init__(self, stream: Any, receipt: Receipt) -> None:
        self._stream = stream
        self._receipt = receipt

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._receipt.add(chunk)
                yield chunk
        finally:
            self._receipt.close()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._receipt.close()
