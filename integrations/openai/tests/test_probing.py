"""Is the server asked what it is: once, with the caller's key, and never for long?"""

from __future__ import annotations

import asyncio
from threading import Event as Signal
from threading import Thread
from typing import Any

import pytest

from kvagent import Engine, Policy
from kvagent_openai import KVAsyncHttpxClient, KVHttpxClient, engine_of, probing, wrap

from .conftest import Make, done
from .null_server import Answer, NullServer, Seen, sse, usual

HELLO = [{"role": "user", "content": "Hello."}]

LLAMACPP = {
    "/v1/models": b'{"data": [{"id": "smol", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}}]}',
    "/props": b'{"default_generation_settings": {"n_ctx": 2048}, "total_slots": 4,'
    b' "build_info": "b1-abc"}',
}
VLLM = {
    "/v1/models": b'{"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 32768}]}',
    "/version": b'{"version": "0.32.0"}',
    "/metrics": b'vllm:cache_config_info{block_size="16",enable_prefix_caching="True"} 1.0\n',
}


def pages(said: dict[str, bytes]) -> Any:
    """A server that has these pages, and replies to chats."""

    def respond(seen: Seen) -> Answer:
        page = said.get(seen.path.partition("?")[0])
        return usual(seen) if page is None else Answer(page)

    return respond


def gets(server: NullServer) -> list[str]:
    return [seen.path for seen in server.seen if seen.method == "GET"]


async def ask(client: Any) -> Any:
    return await done(client.chat.completions.create(model="m", messages=HELLO))


async def test_llamacpp(plain_kind: str, make: Make, server: NullServer) -> None:
    server.respond = pages(LLAMACPP)
    client = wrap(make(plain_kind))
    await ask(client)
    await ask(client)
    found = engine_of(client).server
    assert found is not None
    assert (found.kind, found.window, found.slots) == ("llama.cpp", 2048, 4)
    assert engine_of(client).window == 2048
    assert [seen.path for seen in server.seen] == [
        "/v1/models",
        "/props",
        "/v1/chat/completions",
        "/v1/chat/completions",
    ]


async def test_vllm(plain_kind: str, make: Make, server: NullServer) -> None:
    server.respond = pages(VLLM)
    client = wrap(make(plain_kind))
    await ask(client)
    found = engine_of(client).server
    assert found is not None
    assert (found.kind, found.window, found.block_size) == ("vllm", 32768, 16)
    assert gets(server) == ["/v1/models", "/version", "/metrics"]


async def test_a_server_without_any_of_these_pages(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    client = wrap(make(plain_kind))
    await ask(client)
    found = engine_of(client).server
    assert found is not None
    assert (found.kind, found.window) == ("openai", None)
    await ask(client)
    assert len(gets(server)) == 3  # models, llama.cpp's page, vLLM's


async def test_it_asks_with_the_callers_headers_and_query(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    server.respond = pages(LLAMACPP)
    await ask(wrap(make(plain_kind, default_headers={"x-tenant": "a"}, default_query={"k": "1"})))
    asked = [seen for seen in server.seen if seen.method == "GET"]
    assert [seen.path for seen in asked] == ["/v1/models?k=1", "/props?k=1"]
    for seen in asked:
        assert seen.header("authorization") == "Bearer secret"
        assert seen.header("x-tenant") == "a"
        assert seen.header("content-type") is None
        assert seen.header("content-length") is None
        assert seen.header("x-stainless-retry-count") is None
        assert not seen.body


async def test_a_base_url_without_v1(plain_kind: str, make: Make, server: NullServer) -> None:
    client = wrap(make(plain_kind, base_url=f"{server.url}/proxy"))
    await ask(client)
    assert gets(server)[:2] == ["/proxy/models", "/proxy/props"]


async def test_an_own_http_client_asks_too(plain_kind: str, make: Make, server: NullServer) -> None:
    server.respond = pages(LLAMACPP)
    own: Any = KVHttpxClient() if plain_kind == "OpenAI" else KVAsyncHttpxClient()
    await ask(make(plain_kind, http_client=own))
    assert engine_of(own).window == 2048


async def test_nobody_is_asked_if_the_policy_says_so(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    await ask(wrap(make(plain_kind), policy=Policy(probe=False)))
    assert gets(server) == []


@pytest.mark.parametrize("azure", ["AzureOpenAI", "AsyncAzureOpenAI"])
async def test_azure_is_not_asked(azure: str, make: Make, server: NullServer) -> None:
    await ask(wrap(make(azure)))
    assert gets(server) == []


@pytest.mark.parametrize(
    ("url", "due"),
    [
        ("https://api.openai.com/v1/chat/completions", False),
        ("https://eu.api.openai.com/v1/chat/completions", False),
        ("https://x.openai.azure.com/openai/v1/chat/completions", False),
        ("https://gateway.example/openai/deployments/gpt/chat/completions", False),
        ("https://openai.com.example/v1/chat/completions", True),
        ("http://localhost:8000/v1/chat/completions", True),
        ("http://[::1]:8080/chat/completions", True),
    ],
)
async def test_who_is_asked(url: str, due: bool) -> None:
    with KVHttpxClient() as client:
        assert probing.is_due(client.build_request("POST", url)) is due


async def test_embeddings_ask_nobody(plain_kind: str, make: Make, server: NullServer) -> None:
    server.respond = lambda seen: Answer(b'{"data": []}')
    client = wrap(make(plain_kind))
    await done(client.embeddings.create(model="m", input="a", encoding_format="float"))
    assert gets(server) == []


@pytest.mark.parametrize("hanging", ["/v1/models", "/props"])
async def test_a_page_that_hangs_holds_up_the_first_request_only(
    hanging: str,
    plain_kind: str,
    make: Make,
    server: NullServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page is answered after the chat, so the chat cannot have waited for it."""
    monkeypatch.setattr(probing, "BUDGET_S", 0.2)
    chatted = Signal()

    def respond(seen: Seen) -> Answer:
        if seen.path == hanging:
            return sse([b"{", chatted, b"}"])
        return pages(LLAMACPP)(seen)  # type: ignore[no-any-return]

    server.respond = respond
    client = wrap(make(plain_kind, timeout=20))
    await ask(client)
    before = gets(server)
    await ask(client)
    assert gets(server) == before
    chatted.set()


def test_it_waits_for_two_seconds_at_most() -> None:
    assert probing.BUDGET_S <= 2


async def test_dripping_pages_are_within_the_same_budget(
    plain_kind: str, make: Make, server: NullServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No single step of the transfer takes long, but the page never ends."""
    monkeypatch.setattr(probing, "BUDGET_S", 0.2)
    over = Signal()

    class Drops(list[Any]):
        def __iter__(self) -> Any:
            while not over.wait(0.01):
                yield b" "

    server.respond = lambda seen: sse(Drops()) if seen.method == "GET" else usual(seen)

    def dripping(seen: Seen) -> Answer:
        return Answer(Drops()) if seen.method == "GET" else usual(seen)

    server.respond = dripping
    await ask(wrap(make(plain_kind, timeout=20)))
    over.set()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"\xff\xfe not JSON"),
        Answer(b"<html>", content_type="text/html"),
        Answer(b'{"error": "who are you?"}', status=401),
        Answer(b"[1, 2]"),
        Answer(b"no gzip", headers={"content-encoding": "gzip"}),
    ],
)
async def test_strange_answers(
    answer: Answer, plain_kind: str, make: Make, server: NullServer
) -> None:
    server.respond = lambda seen: usual(seen) if seen.method == "POST" else answer
    client = wrap(make(plain_kind))
    await ask(client)
    found = engine_of(client).server
    assert found is not None
    assert found.kind == "openai"


async def test_an_error_while_asking_stops_no_request(
    plain_kind: str, make: Make, server: NullServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Engine, model: str | None = None) -> Any:
        self._to_probe = False
        raise ZeroDivisionError

    monkeypatch.setattr(Engine, "probe", broken)
    await ask(wrap(make(plain_kind)))
    assert len(server.chats) == 1


async def test_others_do_not_wait_while_one_asks(make: Make, server: NullServer) -> None:
    """The page is answered once all the other chats are, so none of these waited for it."""
    others = Signal()
    chats = 0

    def respond(seen: Seen) -> Answer:
        nonlocal chats
        if seen.path == "/props":
            return sse([b"", others, LLAMACPP["/props"]])
        if seen.method == "POST":
            chats += 1
            if chats == 6:
                others.set()
        return pages(LLAMACPP)(seen)  # type: ignore[no-any-return]

    server.respond = respond
    engine = Engine()
    client = wrap(make("OpenAI", timeout=20), engine=engine)
    threads = [Thread(target=client.chat.completions.create, kwargs={"model": "m", "messages": HELLO})
               for _ in range(7)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert gets(server) == ["/v1/models", "/props"]
    assert engine.window == 2048


async def test_other_tasks_do_not_wait_while_one_asks(make: Make, server: NullServer) -> None:
    others = Signal()
    chats = 0

    def respond(seen: Seen) -> Answer:
        nonlocal chats
        if seen.path == "/props":
            return sse([b"", others, LLAMACPP["/props"]])
        if seen.method == "POST":
            chats += 1
            if chats == 6:
                others.set()
        return pages(LLAMACPP)(seen)  # type: ignore[no-any-return]

    server.respond = respond
    client = wrap(make("AsyncOpenAI", timeout=20))
    await asyncio.gather(*(ask(client) for _ in range(7)))
    assert gets(server) == ["/v1/models", "/props"]
    assert engine_of(client).window == 2048
