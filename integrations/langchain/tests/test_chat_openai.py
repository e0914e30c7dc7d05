"""Does chat_openai give a ChatOpenAI that sends through an engine and loses nothing of a reply?"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, TypeAlias

import openai
import pytest
from langchain_core.load import dumpd, load
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_chunk_to_message,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.runnables import ConfigurableField
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from integrations.openai.tests.null_server import Answer, NullServer, Seen, completion, sse
from kvagent import Engine, Event, Evict, Policy, Tokens, TurnFinished
from kvagent.fingerprint import meaning
from kvagent_langchain.chat_model import KVChatOpenAI, chat_openai
from kvagent_openai import engine_of

Make: TypeAlias = Callable[..., KVChatOpenAI]

WAYS = ["invoke", "ainvoke", "stream", "astream"]
QUIET = Policy(probe=False)
ASIDE = Policy(mode="observe", probe=False)
"""The engine changes nothing: what is on the wire is what the class sends."""


@pytest.fixture
async def make(server: NullServer) -> AsyncIterator[Make]:
    """Makes models of the scripted server, with clients that are closed in the end."""
    clients: list[openai.DefaultAsyncHttpxClient] = []

    def model(**options: Any) -> KVChatOpenAI:
        clients.append(openai.DefaultAsyncHttpxClient())
        own = {"base_url": f"{server.url}/v1", "http_async_client": clients[-1], "max_retries": 0}
        if "engine" not in options:
            own["policy"] = QUIET
        return chat_openai("m", **{**own, **options})

    yield model
    for client in clients:
        await client.aclose()


async def ask(way: str, model: Any, messages: Any) -> AIMessage:
    """A reply, however it is asked for."""
    reply: Any
    if way == "invoke":
        reply = model.invoke(messages)
    elif way == "ainvoke":
        reply = await model.ainvoke(messages)
    elif way == "stream":
        reply = reduce(add, model.stream(messages))
    else:
        reply = reduce(add, [chunk async for chunk in model.astream(messages)])
    message = message_chunk_to_message(reply)
    assert isinstance(message, AIMessage)
    return message


def pieces(message: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The deltas of a message: each text in pieces, calls one after the other."""
    yield {"role": "assistant", "content": None}
    for name, text in message.items():
        if isinstance(text, str):
            yield from ({name: text[at : at + 3]} for at in range(0, len(text), 3))
    for index, call in enumerate(message.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        first = {**call, "function": {**call["function"], "arguments": arguments[:5]}}
        yield {"tool_calls": [{"index": index, **first}]}
        for at in range(5, len(arguments), 4):
            rest = {"arguments": arguments[at : at + 4]}
            yield {"tool_calls": [{"index": index, "function": rest}]}


def answering(message: dict[str, Any]) -> Callable[[Seen], Answer]:
    def respond(seen: Seen) -> Answer:
        if not seen.json.get("stream"):
            return completion(message)
        base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        choices: list[list[dict[str, Any]]] = [
            [{"index": 0, "delta": delta, "finish_reason": None}] for delta in pieces(message)
        ]
        choices += [[{"index": 0, "delta": {}, "finish_reason": reason}], []]
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        chunks: list[dict[str, Any]] = [{**base, "choices": choice} for choice in choices]
        chunks[-1]["usage"] = usage
        lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
        return sse([*lines, b"data: [DONE]\n\n"])

    return respond


def call(arguments: str, id: str = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}


RAW = ['{"path":"größe.txt","lines":[1,2]}', '{ "path" : "gr\\u00f6\\u00dfe.txt" }']
CALLING = {"content": None, "tool_calls": [call(RAW[0], "c1"), call(RAW[1], "c2")]}
RESULTS = [ToolMessage("ten lines", tool_call_id=f"c{n}") for n in (1, 2)]


# -- what it is


def test_it_is_a_chat_openai(make: Make) -> None:
    model = make(temperature=0.5, max_tokens=7)
    plain = ChatOpenAI(
        model="m",
        base_url=model.openai_api_base,
        api_key="x",  # type: ignore[arg-type]
        temperature=0.5,
        max_completion_tokens=7,
    )
    assert isinstance(model, ChatOpenAI)
    assert model._llm_type == plain._llm_type
    assert model._get_ls_params(stop=["."]) == plain._get_ls_params(stop=["."])
    assert model._identifying_params == plain._identifying_params


def test_both_clients_share_one_engine(make: Make) -> None:
    model = make()
    assert engine_of(model.root_client) is engine_of(model.root_async_client) is model.engine
    assert model.engine.policy is QUIET
    shared = Engine(QUIET)
    assert make(engine=shared).engine is make(engine=shared).engine is shared


async def test_every_way_of_asking_is_a_turn_of_the_engine(make: Make, server: NullServer) -> None:
    happened: list[Event] = []
    model = make(on_event=happened.append)
    history: list[BaseMessage] = [HumanMessage("Hello.")]
    for way in WAYS:
        reply = await ask(way, model, history)
        assert reply.text
        history += [reply, HumanMessage("And then?")]
    turns = [event for event in happened if isinstance(event, TurnFinished)]
    assert len(turns) == len(server.chats) == len(WAYS)
    for before, after in zip(server.chats, server.chats[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


async def test_options_of_an_engine_and_of_chat_openai(
    make: Make, server: NullServer, tmp_path: Path
) -> None:
    policy = Policy(evict=Evict(keep=300), probe=False)
    model = make(policy=policy, store=tmp_path / "ledger.db", namespace="mine", seed=4)
    assert (model.engine.policy, model.engine.namespace) == (policy, "mine")
    assert model.engine.store is not None
    await ask("invoke", model, "Hello.")
    assert server.chats[-1].json["seed"] == 4
    assert "store" not in server.chats[-1].json
    await ask("invoke", make(store=True), "Hello.")
    assert server.chats[-1].json["store"] is True, "OpenAI's own flag of that name"
    with pytest.raises(TypeError, match="policy"):
        make(policy=policy, engine=Engine(QUIET))


async def test_usage_of_streams_is_asked_for(make: Make, server: NullServer) -> None:
    server.respond = answering({"content": "There."})
    reply = await ask("stream", make(), "Hello.")
    assert server.chats[-1].json["stream_options"] == {"include_usage": True}
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["input_tokens"] == 20
    await ask("stream", make(stream_usage=False), "Hello.")
    assert "stream_options" not in server.chats[-1].json


async def test_copies_share_the_engine(make: Make, server: NullServer) -> None:
    model = make(on_event=None)
    warm = model.model_copy(update={"temperature": 0.9})
    configurable = model.configurable_fields(temperature=ConfigurableField(id="t"))
    configured = configurable.with_config(configurable={"t": 0.4})
    for asked, temperature in ((warm, 0.9), (configured, 0.4), (model.bind(temperature=0.1), 0.1)):
        await ask("invoke", asked, "Hello.")
        assert server.chats[-1].json["temperature"] == temperature
    assert warm.engine is model.engine
    assert engine_of(warm.root_client) is model.engine


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_it_is_saved_with_its_policy() -> None:
    policy = Policy(mode="safe", evict=Evict(trigger=Tokens(1234)))
    url = "http://127.0.0.1:9/v1"
    model = chat_openai("m", base_url=url, policy=policy, namespace="mine", api_key="hidden")
    text = json.dumps(dumpd(model))
    assert "hidden" not in text
    loaded = load(
        json.loads(text), valid_namespaces=["kvagent_langchain"], allowed_objects=[KVChatOpenAI]
    )
    assert isinstance(loaded, KVChatOpenAI)
    assert (loaded.engine.policy, loaded.engine.namespace) == (policy, "mine")
    assert loaded._identifying_params == model._identifying_params


def test_what_is_no_policy_is_told() -> None:
    with pytest.raises(ValueError, match="instance of Policy"):
        chat_openai("m", base_url="http://127.0.0.1:9/v1", policy="full")  # type: ignore[arg-type]


# -- how it reaches the server


async def test_a_server_of_ones_own_needs_no_key(
    make: Make, server: NullServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key() -> str | None:
        return server.chats[-1].header("authorization")

    for way in ("invoke", "ainvoke"):
        await ask(way, make(), "Hello.")
        assert key() == "Bearer none"
        await ask(way, make(api_key="given"), "Hello.")
        assert key() == "Bearer given"
    monkeypatch.setenv("OPENAI_API_KEY", "from outside")
    await ask("invoke", make(), "Hello.")
    assert key() == "Bearer from outside"
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_BASE", f"{server.url}/v1")
    await ask("invoke", make(base_url=None), "Hello.")
    assert key() == "Bearer none"


def test_openai_itself_needs_a_key() -> None:
    with pytest.raises(openai.OpenAIError, match="OPENAI_API_KEY"):
        chat_openai("m")


async def test_a_proxy_of_the_environment_is_used(
    server: NullServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("http_proxy", server.url)
    model = chat_openai("m", base_url="http://gpu.example/v1", policy=QUIET, max_retries=0)
    await ask("invoke", model, "Hello.")
    assert [seen.path for seen in server.chats] == ["http://gpu.example/v1/chat/completions"]


async def test_clients_of_the_user_are_used(make: Make, server: NullServer) -> None:
    client = openai.DefaultHttpxClient(headers={"x-mine": "sync"})
    async_client = openai.DefaultAsyncHttpxClient(headers={"x-mine": "async"})
    model = make(http_client=client, http_async_client=async_client)
    try:
        for way, mine in (("invoke", "sync"), ("astream", "async")):
            await ask(way, model, "Hello.")
            assert server.chats[-1].header("x-mine") == mine
        assert engine_of(model.root_client) is model.engine
    finally:
        client.close()
        await async_client.aclose()


# -- replies come back as they were generated


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("way", WAYS)
async def test_reasoning_goes_both_ways(
    way: str, name: str, make: Make, server: NullServer
) -> None:
    server.respond = answering({name: "First größe, then the rest.", **CALLING})
    first = await ask(way, make(), "Look.")
    assert first.additional_kwargs[name] == "First größe, then the rest."
    await ask(way, make(policy=ASIDE), ["Look.", first, *RESULTS])
    back = server.chats[-1].messages[1]
    assert {key: back.get(key) for key in ("reasoning_content", "reasoning")} == {
        "reasoning_content": None,
        "reasoning": None,
        name: "First größe, then the rest.",
    }


@pytest.mark.parametrize("way", WAYS)
async def test_calls_go_back_as_they_were_generated(
    way: str, make: Make, server: NullServer
) -> None:
    server.respond = answering(CALLING)
    first = await ask(way, make(), "Look.")
    assert [made["args"] for made in first.tool_calls] == [json.loads(raw) for raw in RAW]
    # As from a checkpoint, in a process that knows nothing of the first turn.
    [restored] = messages_from_dict(messages_to_dict([first]))
    await ask(way, make(policy=ASIDE), ["Look.", restored, *RESULTS])
    assert server.chats[-1].messages[1]["tool_calls"] == CALLING["tool_calls"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])  # of chunks, LangChain makes what it can
async def test_arguments_that_are_no_json_stay(way: str, make: Make, server: NullServer) -> None:
    broken = {"content": None, "tool_calls": [call('{"path": '), call(RAW[0], "c2")]}
    server.respond = answering(broken)
    first = await ask(way, make(), "Look.")
    assert [len(first.tool_calls), len(first.invalid_tool_calls)] == [1, 1]
    await ask(way, make(policy=ASIDE), ["Look.", first, *RESULTS])
    assert server.chats[-1].messages[1]["tool_calls"] == broken["tool_calls"]


async def test_who_edits_a_call_wins(make: Make, server: NullServer) -> None:
    server.respond = answering(CALLING)
    first = await ask("invoke", make(), "Look.")
    edited = first.model_copy(deep=True)
    edited.tool_calls[1]["args"] = {"path": "another.txt"}
    await ask("invoke", make(policy=ASIDE), ["Look.", edited, *RESULTS])
    sent = server.chats[-1].messages[1]["tool_calls"]
    assert json.loads(sent[1]["function"]["arguments"]) == {"path": "another.txt"}
    fewer = first.model_copy(update={"tool_calls": first.tool_calls[:1]})
    await ask("invoke", make(policy=ASIDE), ["Look.", fewer, RESULTS[0]])
    assert [made["id"] for made in server.chats[-1].messages[1]["tool_calls"]] == ["c1"]


async def test_what_it_sends_means_what_chat_openai_sends(make: Make, server: NullServer) -> None:
    server.respond = answering({"reasoning": "Hm.", **CALLING})
    model = make(policy=ASIDE)
    first = await ask("stream", model, "Look.")
    history = [HumanMessage("Look."), first, *RESULTS, HumanMessage("And?")]
    await ask("invoke", model, history)
    plain = ChatOpenAI(model="m", base_url=f"{server.url}/v1", api_key="x", max_retries=0)  # type: ignore[arg-type]
    await ask("invoke", plain, history)
    ours, theirs = (seen.messages for seen in server.chats[-2:])
    assert [meaning(message) for message in ours] == [meaning(message) for message in theirs]


# -- structured output


class Answered(BaseModel):
    """An answer."""

    text: str


# What ChatOpenAI says while it streams any structured output.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
@pytest.mark.parametrize("way", WAYS)
async def test_structured_output(way: str, make: Make, server: NullServer) -> None:
    server.respond = answering({"reasoning": "Hm, hm.", "content": '{"text": "yes"}'})
    structured: Any = make().with_structured_output(Answered, include_raw=True)
    if way == "invoke":
        result = structured.invoke("Is it?")
    elif way == "ainvoke":
        result = await structured.ainvoke("Is it?")
    elif way == "stream":
        result = reduce(add, structured.stream("Is it?"))
    else:
        result = reduce(add, [part async for part in structured.astream("Is it?")])
    assert result["parsed"] == Answered(text="yes")
    assert result["raw"].additional_kwargs["reasoning"] == "Hm, hm."
    assert server.chats[-1].json["response_format"]["type"] == "json_schema"
