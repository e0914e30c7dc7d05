"""Does a stream reach the caller as it came, and is it kept only as far as it was answered?"""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import Sequence
from threading import Event as Signal
from typing import Any

import openai
import pytest

from kvagent import Engine
from kvagent.chat import ChatReply
from kvagent.events import Event, TurnFinished
from kvagent.flow import Flow
from kvagent_openai import wrap
from kvagent_openai.library import library_of

from .conftest import UNPROBED, Make, done, listed
from .null_server import CUT, Answer, NullServer, completion, events, sse

HELLO = [{"role": "user", "content": "Hello."}]
REPLY = {"content": "A reply of some length."}


class Told(Engine):
    """An engine that notes which replies it was told, and which turns it made of them."""

    def __init__(self) -> None:
        super().__init__(UNPROBED, on_event=self._note)
        self.replies: list[ChatReply] = []
        self.turns: list[TurnFinished] = []

    def turn(self, body: bytes, *, session: str | None = None) -> Flow:
        settle = yield from super().turn(body, session=session)

        def noted(reply: ChatReply, ttft_s: float | None) -> None:
            self.replies.append(reply)
            settle(reply, ttft_s)

        return noted

    def _note(self, event: Event) -> None:
        if isinstance(event, TurnFinished):
            self.turns.append(event)


@pytest.fixture
def told() -> Told:
    return Told()


async def opened(client: Any) -> Any:
    return await done(client.chat.completions.create(model="m", messages=HELLO, stream=True))


async def closed(stream: Any) -> None:
    await done(stream.close())


async def following(stream: Any) -> Any:
    return await anext(stream) if hasattr(stream, "__anext__") else next(stream)


async def raw_bytes(client: Any) -> list[bytes]:
    """The chunks of a reply's body as the SDK hands them to a caller who wants just these."""
    manager = client.chat.completions.with_streaming_response.create(
        model="m", messages=HELLO, stream=True
    )
    if hasattr(manager, "__aenter__"):
        async with manager as response:
            return [chunk async for chunk in response.http_response.aiter_raw()]
    with manager as response:
        return list(response.http_response.iter_raw())


@pytest.mark.parametrize(
    "chunks",
    [
        events(REPLY),
        [b"".join(events(REPLY))],
        [bytes([byte]) for byte in b"".join(events({"content": "ä"}))],
        [b": a comment\r\n\r\n", *(chunk.replace(b"\n", b"\r\n") for chunk in events(REPLY))],
        [b"\x00\xff no event at all"],
    ],
    ids=["events", "at once", "byte by byte", "crlf", "rubbish"],
)
async def test_every_byte_is_passed_on(
    chunks: Sequence[bytes], plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    server.respond = lambda seen: sse(chunks)
    client = wrap(make(plain_kind), engine=told)
    assert b"".join(await raw_bytes(client)) == b"".join(chunks)
    assert len(told.replies) == 1


async def test_the_reply_is_put_together_once(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    server.respond = lambda seen: sse(events(REPLY, {"content": "another"}))
    await listed(await opened(wrap(make(plain_kind), engine=told)))
    (reply,) = told.replies
    assert reply.complete
    assert [message["content"] for message in reply.messages] == [REPLY["content"], "another"]
    assert told.turns[0].ttft_s is not None


async def test_chunks_are_not_held_back(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    """The rest of the stream comes only after the caller has had its beginning."""
    first, *rest = events(REPLY)
    had = Signal()
    server.respond = lambda seen: sse([first, had, *rest])
    stream = await opened(wrap(make(plain_kind, timeout=5), engine=told))
    chunk = await following(stream)
    assert chunk.choices[0].delta.role == "assistant"
    assert told.replies == []
    had.set()
    assert len(await listed(stream)) == len(rest) - 1  # [DONE] is none
    assert len(told.replies) == 1


@pytest.mark.parametrize("how", ["close", "break", "with"])
async def test_a_stream_given_up_is_no_reply(
    how: str, plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    first, *rest = events(REPLY)
    never = Signal()
    server.respond = lambda seen: sse([first, never, *rest])
    client = wrap(make(plain_kind, timeout=5), engine=told)
    stream = await opened(client)
    if how == "with" and hasattr(stream, "__aenter__"):
        async with stream:
            await following(stream)
    elif how == "with":
        with stream:
            await following(stream)
    else:
        if how == "close":
            await following(stream)
        elif hasattr(stream, "__aiter__"):
            async for _ in stream:
                break
        else:
            for _ in stream:
                break
        await closed(stream)
    never.set()
    (reply,) = told.replies
    assert not reply.complete
    assert len(told.turns) == 1


async def test_a_stream_forgotten_is_no_reply(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    """Neither read nor closed to its end: it goes with its last reference."""
    first, *rest = events(REPLY)
    never = Signal()
    server.respond = lambda seen: sse([first, never, *rest])
    stream = await opened(wrap(make(plain_kind, timeout=5), engine=told))
    await following(stream)
    del stream
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    never.set()
    assert [reply.complete for reply in told.replies] == [False]


async def test_a_stream_never_begun_keeps_nothing(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    stream = await opened(wrap(make(plain_kind), engine=told))
    await closed(stream)
    assert [reply.complete for reply in told.replies] == [False]
    assert told.turns[0].ttft_s is None


@pytest.mark.parametrize("kept", [1, 4])
async def test_a_connection_cut_off_raises_what_it_raises_without_kvagent(
    kept: int, plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    server.respond = lambda seen: sse([*events(REPLY)[:kept], CUT])
    bare = make(plain_kind, timeout=5)
    raised, had = [], []
    for client in (bare, wrap(bare, engine=told)):
        stream = await opened(client)
        had.append(0)
        try:
            while await following(stream):
                had[-1] += 1
        except Exception as error:  # noqa: BLE001 - whatever the bare client raises
            raised.append(error)
    assert type(raised[1]) is type(raised[0])
    assert not isinstance(raised[1], StopIteration | StopAsyncIteration)
    assert str(raised[1]) == str(raised[0])
    assert had == [kept, kept]
    assert [reply.complete for reply in told.replies] == [False]


async def test_a_whole_reply_cut_off_is_retried_by_the_sdk(
    plain_kind: str, make: Make, server: NullServer, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    server.scripted.append(Answer([b'{"choices": [', CUT]))
    client = wrap(make(plain_kind, max_retries=1), engine=told)
    await done(client.chat.completions.create(model="m", messages=HELLO))
    assert len(server.chats) == 2
    assert [reply.complete for reply in told.replies] == [True]
    assert [turn.turn for turn in told.turns] == [1]


async def test_an_error_within_a_stream_is_no_reply(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    error = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
    server.respond = lambda seen: sse([*events(REPLY)[:3], error])
    stream = await opened(wrap(make(plain_kind), engine=told))
    with pytest.raises(openai.APIError, match="out of memory"):
        await listed(stream)
    await closed(stream)  # openai 2.0 leaves it open
    (reply,) = told.replies
    assert not reply.complete
    assert reply.error == {"message": "out of memory", "code": 500}


@pytest.mark.parametrize("encoding", ["gzip", "rubbish"])
async def test_encoded_streams_pass_encoded(
    encoding: str, plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    """What cannot be decoded is the caller's business; the turn counts all the same."""
    zipped = gzip.compress(b"".join(events(REPLY)))
    body = zipped if encoding == "gzip" else b"no gzip"
    server.respond = lambda seen: sse([body[:5], body[5:]], **{"content-encoding": "gzip"})
    client = wrap(make(plain_kind), engine=told)
    assert b"".join(await raw_bytes(client)) == body
    (reply,) = told.replies
    assert reply.complete is (encoding == "gzip")


async def test_a_whole_reply_may_be_streamed(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    server.respond = lambda seen: completion(REPLY)
    client = wrap(make(plain_kind), engine=told)
    assert await raw_bytes(client)
    (reply,) = told.replies
    assert reply.complete
    assert reply.messages[0]["content"] == REPLY["content"]


async def test_tool_calls_are_put_together(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
        for n in range(2)
    ]
    server.respond = lambda seen: sse(events({"tool_calls": calls}))
    await listed(await opened(wrap(make(plain_kind), engine=told)))
    (reply,) = told.replies
    assert reply.messages[0]["tool_calls"] == calls


async def test_connections_are_used_again_as_without_kvagent(
    plain_kind: str, make: Make, server: NullServer, told: Told
) -> None:
    used = []
    for client in (make(plain_kind), wrap(make(plain_kind), engine=told)):
        server.connections = 0
        for _ in range(3):
            await listed(await opened(client))
            await done(client.chat.completions.create(model="m", messages=HELLO))
        used.append(server.connections)
    assert used[0] == used[1]


async def test_a_body_that_is_there_at_once(plain_kind: str, make: Make, told: Told) -> None:
    """As transports for tests give it, even if a stream was asked for."""
    sdk = (
        openai.DefaultAsyncHttpxClient if plain_kind == "AsyncOpenAI" else openai.DefaultHttpxClient
    )
    library = library_of(sdk())

    def respond(request: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        return library.Response(200, headers=headers, content=b"".join(events(REPLY)))

    http_client = sdk(transport=library.MockTransport(respond))
    client = wrap(make(plain_kind, http_client=http_client), engine=told)
    chunks = await listed(await opened(client))
    assert len(chunks) == len(events(REPLY)) - 1
    assert [reply.complete for reply in told.replies] == [True]
