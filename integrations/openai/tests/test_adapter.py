"""Is a wrapped client the client it was, only with an engine?"""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import openai
import pytest

import kvagent
from kvagent import Engine, Policy
from kvagent.adapters import Adapter
from kvagent_openai import KVHttpxClient, adapter, engine_of, wrap

from .conftest import UNPROBED, Make, done
from .null_server import NullServer

CLOCK = [
    {"role": "system", "content": "Current time: 2026-03-01 09:00:01"},
    {"role": "user", "content": "Hello."},
]


class CompanyOpenAI(openai.OpenAI):
    """A user's own client: another constructor, and something of its own."""

    def __init__(self, team: str, **options: Any) -> None:
        super().__init__(**options)
        self.team = team


class AsyncCompanyOpenAI(openai.AsyncAzureOpenAI):
    """The same, asynchronous."""


async def ask(client: Any) -> Any:
    return await done(client.chat.completions.create(model="m", messages=CLOCK))


def test_the_module_is_an_adapter() -> None:
    assert isinstance(adapter, Adapter)


async def test_it_accepts_clients_of_the_sdk_only(kind: str, make: Make) -> None:
    assert adapter.accepts(make(kind))
    own = CompanyOpenAI("a", api_key="x")
    assert adapter.accepts(own)
    own.close()
    for other in (openai, openai.OpenAI, object(), None, {}, pytest):
        assert not adapter.accepts(other)


def test_asking_it_imports_no_sdk() -> None:
    code = """
import sys
from kvagent_openai import adapter, engine_of, wrap
assert not adapter.accepts(object())
print(sorted({"openai", "httpx", "httpx2"} & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


async def test_the_type_stays(kind: str, make: Make) -> None:
    client = make(kind)
    wrapped = wrap(client)
    assert type(wrapped) is type(client)
    assert wrapped is not client
    assert type(wrapped.copy()) is type(client)


async def test_what_a_subclass_added_stays(make: Make, server: NullServer) -> None:
    wrapped = wrap(make(CompanyOpenAI, team="search"), policy=UNPROBED)
    assert type(wrapped) is CompanyOpenAI
    assert wrapped.team == "search"
    await ask(wrapped)
    other = wrap(make(AsyncCompanyOpenAI), policy=UNPROBED)
    assert type(other) is AsyncCompanyOpenAI
    await ask(other)
    assert all("note" in seen.messages[0]["content"] for seen in server.chats)
    assert len(server.chats) == 2


async def test_the_settings_stay(plain_kind: str, make: Make, server: NullServer) -> None:
    client = make(
        plain_kind,
        timeout=12.5,
        max_retries=7,
        organization="org",
        default_headers={"x-a": "1"},
        default_query={"q": "2"},
    )
    client.chat  # noqa: B018 - what hangs on the client is made now
    wrapped = wrap(client, policy=UNPROBED)
    assert wrapped.timeout == 12.5
    assert wrapped.max_retries == 7
    await ask(wrapped)
    (seen,) = server.chats
    assert seen.path == "/v1/chat/completions?q=2"
    assert (seen.header("x-a"), seen.header("openai-organization")) == ("1", "org")
    assert seen.header("authorization") == "Bearer secret"


async def test_the_given_client_stays_as_it_was(kind: str, make: Make, server: NullServer) -> None:
    client = make(kind)
    before = dict(vars(client))
    completions = client.chat.completions
    wrapped = wrap(client, policy=UNPROBED)
    await ask(wrapped)
    await ask(client)
    await done(completions.create(model="m", messages=CLOCK))
    sent, raw, again = server.chats
    assert raw.messages == again.messages == CLOCK
    assert sent.messages != CLOCK
    before["_platform"] = client._platform  # which it looks up when it first sends
    assert {name: vars(client)[name] for name in before} == before
    with pytest.raises(TypeError, match="was not wrapped"):
        engine_of(client)


async def test_closing_one_is_closing_both(kind: str, make: Make) -> None:
    client = make(kind)
    wrapped = wrap(client)
    assert not wrapped.is_closed()
    await done(wrapped.close())
    assert wrapped.is_closed()
    assert client.is_closed()


async def test_a_wrapped_client_is_a_context(plain_kind: str, make: Make) -> None:
    wrapped = wrap(make(plain_kind), policy=UNPROBED)
    if plain_kind == "OpenAI":
        with wrapped as client:
            await ask(client)
    else:
        async with wrapped as client:
            await ask(client)
    assert wrapped.is_closed()


async def test_it_outlives_the_given_client(plain_kind: str, make: Make) -> None:
    """A client of the SDK closes its connections when it is collected."""
    import gc

    given = getattr(openai, plain_kind)(api_key="x", base_url=make(plain_kind).base_url)
    wrapped = wrap(given, policy=UNPROBED)
    del given
    gc.collect()
    await ask(wrapped)
    await done(wrapped.close())


async def test_copies_share_the_engine(plain_kind: str, make: Make) -> None:
    wrapped = wrap(make(plain_kind))
    engine = engine_of(wrapped)
    assert engine_of(wrapped.with_options(timeout=1)) is engine
    assert engine_of(wrapped.copy().copy()) is engine
    assert engine_of(copy.copy(wrapped)) is engine


async def test_wrapping_again(plain_kind: str, make: Make, server: NullServer) -> None:
    """The engine of the last call counts, and only once."""
    client = make(plain_kind)
    wrapped = wrap(client, policy=UNPROBED)
    engine = engine_of(wrapped)
    assert wrap(wrapped) is wrapped
    assert wrap(wrapped, engine=engine) is wrapped
    watching = wrap(wrapped, policy=Policy(mode="observe", probe=False))
    assert engine_of(watching) is not engine
    await ask(watching)
    assert server.chats[-1].messages == CLOCK
    assert watching._client.kvagent_inner is client._client


async def test_an_engine_for_several_clients(make: Make) -> None:
    engine = Engine(UNPROBED)
    clients = [wrap(make(kind), engine=engine) for kind in ("OpenAI", "AsyncOpenAI")]
    assert all(engine_of(client) is engine for client in clients)


async def test_an_engine_has_its_options_already(make: Make) -> None:
    with pytest.raises(TypeError, match="together with policy, namespace"):
        wrap(make("OpenAI"), engine=Engine(), policy=Policy(), namespace="a")


async def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match=r"builtins\.dict is no client of the OpenAI SDK"):
        wrap({})  # type: ignore[type-var]
    with pytest.raises(TypeError, match="was not wrapped"):
        engine_of(object())


async def test_it_is_found_by_its_entry_point(make: Make) -> None:
    client = make("OpenAI")
    wrapped = kvagent.wrap(client, policy=UNPROBED)
    assert engine_of(wrapped).policy is UNPROBED


async def test_the_http_client_may_have_an_engine_already(make: Make, server: NullServer) -> None:
    own = KVHttpxClient(policy=UNPROBED)
    client = make("OpenAI", http_client=own)
    assert wrap(client) is client
    watching = wrap(client, policy=Policy(mode="observe", probe=False))
    await ask(watching)
    await ask(client)
    raw, sent = server.chats
    assert raw.messages == CLOCK
    assert sent.messages != CLOCK
