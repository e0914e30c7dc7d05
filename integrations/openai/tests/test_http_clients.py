"""Does an HTTP client with an engine serve whoever takes an HTTP client?"""

from __future__ import annotations

from typing import Any

import openai
import pytest

import kvagent_openai
from kvagent import Engine, Policy
from kvagent_openai import KVAsyncHttpxClient, KVHttpxClient, engine_of

from .conftest import UNPROBED, Make, done
from .null_server import Answer, NullServer

CLOCK = [
    {"role": "system", "content": "Current time: 2026-03-01 09:00:01"},
    {"role": "user", "content": "Hello."},
]


def http_client(kind: str, **options: Any) -> Any:
    return KVAsyncHttpxClient(**options) if "Async" in kind else KVHttpxClient(**options)


async def ask(client: Any, **options: Any) -> Any:
    return await done(client.chat.completions.create(model="m", messages=CLOCK, **options))


async def test_it_sends_what_a_wrapped_client_sends(
    kind: str, make: Make, server: NullServer
) -> None:
    wrapped = kvagent_openai.wrap(make(kind), policy=UNPROBED)
    await ask(wrapped)
    own = make(kind, http_client=http_client(kind, policy=UNPROBED))
    await ask(own)
    first, second = server.chats
    assert (first.headers, first.body) == (second.headers, second.body)
    assert first.messages != CLOCK


async def test_the_other_options_are_those_of_its_base(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    requests: list[Any] = []

    def hook(request: Any) -> None:
        requests.append(request)

    async def ahook(request: Any) -> None:
        requests.append(request)

    hooks = {"request": [ahook if plain_kind == "AsyncOpenAI" else hook]}
    own = http_client(
        plain_kind, policy=UNPROBED, headers={"x-a": "1"}, event_hooks=hooks, timeout=9
    )
    client = make(plain_kind, http_client=own)
    await ask(client)
    assert client.timeout == own.timeout
    assert server.chats[0].header("x-a") == "1"
    assert requests[0].content == server.chats[0].body


async def test_the_defaults_are_the_sdks(plain_kind: str) -> None:
    own = http_client(plain_kind)
    assert isinstance(
        own, getattr(openai, f"Default{'Async' if plain_kind != 'OpenAI' else ''}HttpxClient")
    )
    assert own.timeout.read == openai.DEFAULT_TIMEOUT.read
    await done(own.close() if plain_kind == "OpenAI" else own.aclose())


async def test_an_engine_can_be_shared(plain_kind: str) -> None:
    engine = Engine()
    own = http_client(plain_kind, engine=engine)
    assert engine_of(own) is engine
    await done(own.close() if plain_kind == "OpenAI" else own.aclose())
    with pytest.raises(TypeError, match="together with policy"):
        http_client(plain_kind, engine=engine, policy=Policy())


async def test_other_requests_pass(server: NullServer) -> None:
    server.respond = lambda seen: Answer()
    with KVHttpxClient(policy=UNPROBED) as own:
        own.post(f"{server.url}/anything", json={"messages": CLOCK})
        own.post(f"{server.url}/chat/completions", content=b"no json")
        own.get(f"{server.url}/chat/completions")
        own.post(f"{server.url}/chat/completions", content=iter([b"a ", b"stream"]))
    anything, text, _, _ = server.seen
    assert anything.messages == CLOCK
    assert text.body == b"no json"


async def test_unknown_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="no attribute 'KVHttpClient'"):
        kvagent_openai.KVHttpClient  # noqa: B018


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_client_of_the_other_library_is_served_too(
    asynchronous: bool, make: Make, server: NullServer
) -> None:
    """The SDK on httpx2 still takes a client of httpx."""
    httpx = pytest.importorskip("httpx")
    own = httpx.AsyncClient() if asynchronous else httpx.Client()
    client = make("AsyncOpenAI" if asynchronous else "OpenAI", http_client=own, timeout=7)
    wrapped = kvagent_openai.wrap(client, policy=UNPROBED)
    assert isinstance(wrapped._client, type(own))
    reply = await ask(wrapped)
    assert reply.choices[0].message.content.startswith("reply")
    stream = await ask(wrapped, stream=True)
    chunks = [c async for c in stream] if asynchronous else list(stream)
    assert len(chunks) > 2
    assert all(seen.messages != CLOCK for seen in server.chats)
