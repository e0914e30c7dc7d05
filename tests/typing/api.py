"""Does the documented usage type-check? Read by mypy --strict, never run.

`assert_type` says what a user's editor shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import openai
from openai import AsyncAzureOpenAI, AsyncOpenAI, AzureOpenAI, OpenAI
from openai.types.chat import ChatCompletion

import kvagent
import kvagent_openai


class CompanyOpenAI(OpenAI):
    """A client of the user's own."""


def a_wrapped_client_keeps_its_type() -> None:
    assert_type(kvagent.wrap(OpenAI()), OpenAI)
    assert_type(kvagent.wrap(AsyncOpenAI()), AsyncOpenAI)
    assert_type(kvagent.wrap(AzureOpenAI()), AzureOpenAI)
    assert_type(kvagent.wrap(AsyncAzureOpenAI()), AsyncAzureOpenAI)
    assert_type(kvagent.wrap(CompanyOpenAI()), CompanyOpenAI)
    assert_type(kvagent_openai.wrap(CompanyOpenAI()), CompanyOpenAI)


def the_quick_start() -> None:
    client = kvagent.wrap(OpenAI(base_url="http://localhost:8000/v1", api_key="EMPTY"))
    answer = client.chat.completions.create(
        model="local", messages=[{"role": "user", "content": "Hello"}]
    )
    assert_type(answer, ChatCompletion)


def watch(event: kvagent.Event) -> None:
    """Every kind of event has its own fields."""
    match event:
        case kvagent.TurnFinished():
            assert_type(event.cached_tokens, int | None)
        case kvagent.PrefixBroken():
            assert_type(event.index, int)
        case kvagent.Overflowed():
            assert_type(event.window, int | None)
        case kvagent.Edited():
            assert_type(event.applied, bool)
        case _:
            pass


def everything_that_can_be_set() -> None:
    policy = kvagent.Policy(
        mode="safe",
        window=32_768,
        volatile=kvagent.Volatile(patterns=(r"build (?P<value>\d+)",)),
        evict=kvagent.Evict(
            trigger=kvagent.Tokens(4_000) | kvagent.Fraction(0.1),
            keep=1_500,
            exclude_tools=("read_file",),
        ),
    )
    client = kvagent.wrap(OpenAI(), policy=policy, store="ledgers.sqlite3", on_event=watch)
    assert_type(client, OpenAI)
    kvagent.wrap(OpenAI(), policy=kvagent.Policy(evict=None), store=Path("ledgers.sqlite3"))
    kvagent.wrap(OpenAI(), store=kvagent.MemoryStore(max_bytes=64 << 20))


def stamp(turn: kvagent.Turn) -> None:
    """A stage of the user's own: it sees the fresh messages, and may replace what they say."""
    for fresh in turn.tail:
        if fresh.role == "user":
            fresh.message = {**fresh.message, "name": "operator"}
            turn.edits.append(kvagent.Edit(stage="stamp", cause="named", index=fresh.index))


def a_stage_of_ones_own() -> None:
    stage: kvagent.Stage = stamp
    kvagent.wrap(OpenAI(), stages=(*kvagent.DEFAULT_STAGES, stage))


def text_that_is_marked_as_volatile() -> None:
    assert_type(kvagent.volatile("3 tickets are open"), str)


def an_engine_without_a_client() -> None:
    engine = kvagent.Engine(kvagent.Policy(window=8_192))
    assert_type(engine.rewrite(b"{}"), bytes)
    assert_type(engine.recall("0123456789ab"), str)
    kvagent.wrap(OpenAI(), engine=engine)


def a_conversation_with_a_name() -> None:
    with kvagent.session("ticket-4711", namespace="customer-7"):
        pass


def a_client_for_a_framework() -> None:
    sync: openai.DefaultHttpxClient = kvagent_openai.KVHttpxClient()
    asynchronous: openai.DefaultAsyncHttpxClient = kvagent_openai.KVAsyncHttpxClient()
    OpenAI(http_client=sync)
    AsyncOpenAI(http_client=asynchronous)
