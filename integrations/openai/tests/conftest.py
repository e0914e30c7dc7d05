"""What do the tests of the adapter share? A server, and clients of every kind that talk to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from inspect import isawaitable
from typing import Any, TypeAlias

import openai
import pytest

from kvagent import Policy

from .null_server import NullServer

Make: TypeAlias = Callable[..., Any]

KINDS = ["OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI"]
UNPROBED = Policy(probe=False)


async def done(value: Any) -> Any:
    """What a call gave, be its client synchronous or not."""
    return await value if isawaitable(value) else value


async def listed(stream: Any) -> list[Any]:
    """All that a stream gives, be it synchronous or not."""
    if hasattr(stream, "__aiter__"):
        return [item async for item in stream]
    return list(stream)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[NullServer]:
    server = NullServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def make(server: NullServer) -> AsyncIterator[Make]:
    """Makes a client of the SDK by the name of its class; closes them all in the end."""
    made: list[Any] = []

    def client(kind: str | type, **options: Any) -> Any:
        options = {"api_key": "secret", "max_retries": 0, **options}
        create = kind if isinstance(kind, type) else getattr(openai, kind)
        if issubclass(create, openai.AzureOpenAI | openai.AsyncAzureOpenAI):
            options = {"azure_endpoint": server.url, "api_version": "2024-10-21", **options}
        else:
            options = {"base_url": f"{server.url}/v1", **options}
        made.append(create(**options))
        return made[-1]

    yield client
    for one in made:
        await done(one.close())


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["OpenAI", "AsyncOpenAI"])
def plain_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)
