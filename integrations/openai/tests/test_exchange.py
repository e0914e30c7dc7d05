"""Which bytes go out, over every surface of the SDK, and what comes back?"""

from __future__ import annotations

import asyncio
import gzip
import io
import logging
from collections.abc import Awaitable, Callable
from threading import Event as Signal
from threading import Thread
from typing import Any

import openai
import pytest
from pydantic import BaseModel

import kvagent
import kvagent.planner
from kvagent import Engine, Hints, Policy
from kvagent.events import Bypassed, Event, TurnFinished
from kvagent_openai import engine_of, wrap

from .conftest import UNPROBED, Make, done, listed
from .null_server import Answer, NullServer, Seen, completion, events, sse

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("read_file", "list_files")
]


class Verdict(BaseModel):
    good: bool


def clocked(second: int, *more: dict[str, Any]) -> list[dict[str, Any]]:
    """What an agent sends that writes the time into its system prompt."""
    system = f"You are a careful agent.\nCurrent time: 2026-03-01 09:00:{second:02d}\nBe brief."
    return [{"role": "system", "content": system}, {"role": "user", "content": "Begin."}, *more]


GOOD = {"content": '{"good": true}'}
TURNS = [
    clocked(1),
    clocked(2, {"role": "assistant", **GOOD}, {"role": "user", "content": "More."}),
]
PLAIN = [{"role": "user", "content": "Grüß Gott  — \u2028 \U0001f600"}]

Surface = Callable[[Any, list[dict[str, Any]]], Awaitable[Any]]


async def create(client: Any, messages: list[dict[str, Any]]) -> Any:
    return await done(client.chat.completions.create(model="m", messages=messages))


async def stream(client: Any, messages: list[dict[str, Any]]) -> Any:
    return await listed(
        await done(client.chat.completions.create(model="m", messages=messages, stream=True))
    )


async def stream_helper(client: Any, messages: list[dict[str, Any]]) -> Any:
    manager = client.chat.completions.stream(model="m", messages=messages)
    if hasattr(manager, "__aenter__"):
        async with manager as opened:
            return [event.type async for event in opened]
    with manager as opened:
        return [event.type for event in opened]


async def parse(client: Any, messages: list[dict[str, Any]]) -> Any:
    reply = await done(
        client.chat.completions.parse(model="m", messages=messages, response_format=Verdict)
    )
    return reply.choices[0].message.parsed


async def raw_response(client: Any, messages: list[dict[str, Any]]) -> Any:
    raw = await done(client.chat.completions.with_raw_response.create(model="m", messages=messages))
    return raw.http_response.content, raw.parse()


async def streaming_response(client: Any, messages: list[dict[str, Any]]) -> Any:
    manager = client.chat.completions.with_streaming_response.create(model="m", messages=messages)
    if hasattr(manager, "__aenter__"):
        async with manager as opened:
            return await opened.json()
    with manager as opened:
        return opened.json()


async def options(client: Any, messages: list[dict[str, Any]]) -> Any:
    return await create(client.with_options(timeout=5), messages)


async def copy(client: Any, messages: list[dict[str, Any]]) -> Any:
    return await create(client.copy(default_headers={"x-more": "1"}), messages)


SURFACES: list[Surface] = [
    create,
    stream,
    stream_helper,
    parse,
    raw_response,
    streaming_response,
    options,
    copy,
]


def told(seen: Seen) -> list[tuple[str, str]]:
    """The headers, but for the length of the body."""
    return [(name, value) for name, value in seen.headers if name.lower() != "content-length"]


@pytest.fixture(autouse=True)
def _verdicts(server: NullServer) -> None:
    server.respond = lambda seen: sse(events(GOOD)) if seen.json.get("stream") else completion(GOOD)


@pytest.mark.parametrize("surface", SURFACES)
async def test_what_goes_out_is_what_the_engine_makes_of_the_bare_bytes(
    surface: Surface, kind: str, make: Make, server: NullServer
) -> None:
    bare = make(kind)
    results = [await surface(bare, messages) for messages in TURNS]
    raw = list(server.chats)
    server.seen.clear()

    wrapped = wrap(bare, policy=UNPROBED)
    assert [await surface(wrapped, messages) for messages in TURNS] == results

    engine = Engine(UNPROBED)
    assert [seen.body for seen in server.chats] == [engine.rewrite(seen.body) for seen in raw]
    assert [seen.body for seen in server.chats] != [seen.body for seen in raw]
    assert [told(seen) for seen in server.chats] == [told(seen) for seen in raw]
    assert [seen.path for seen in server.chats] == [seen.path for seen in raw]
    assert all(seen.header("content-length") == str(len(seen.body)) for seen in server.chats)
    first, second = server.chats
    assert second.messages[: len(first.messages)] == first.messages


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_request_without_a_decision_is_the_one_the_sdk_made(
    surface: Surface, kind: str, make: Make, server: NullServer
) -> None:
    bare = make(kind)
    await surface(bare, PLAIN)
    await surface(wrap(bare, policy=UNPROBED), PLAIN)
    raw, sent = server.chats
    assert (sent.headers, sent.body) == (raw.headers, raw.body)


async def test_other_endpoints_pass(kind: str, make: Make, server: NullServer) -> None:
    async def call_all(client: Any) -> list[Seen]:
        server.seen.clear()
        await done(client.embeddings.create(model="m", input="text", encoding_format="float"))
        await listed(await done(client.models.list()))
        await done(client.completions.create(model="m", prompt="Current time: 2026-03-01"))
        await done(client.responses.create(model="m", input="Current time: 2026-03-01"))
        upload = ("name.jsonl", io.BytesIO(b"{}\n"))
        await done(client.files.create(file=upload, purpose="batch"))
        return list(server.seen)

    server.respond = lambda seen: Answer(b'{"object": "list", "data": [], "output": []}')
    bare = make(kind)
    raw = await call_all(bare)
    sent = await call_all(wrap(bare))
    assert len(sent) == 5
    boundaries = [(seen.header("content-type") or "").rpartition("boundary=")[2] for seen in sent]
    for before, after, boundary in zip(raw, sent, boundaries, strict=True):
        was = (before.header("content-type") or "").rpartition("boundary=")[2]
        assert after.path == before.path
        assert after.body.replace(boundary.encode(), b"-") == before.body.replace(
            was.encode(), b"-"
        )
        assert told(after)[:1] == told(before)[:1]
        assert len(after.headers) == len(before.headers)


async def test_what_shapes_the_reply_survives(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}
    picture = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}
    asked: dict[str, Any] = {
        "model": "m",
        "messages": clocked(1, {"role": "assistant", "content": "Yes?"}, picture),
        "n": 2,
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "read_file"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_object"},
        "logprobs": True,
        "top_logprobs": 3,
        "seed": 7,
        "extra_body": {"cache_prompt": True, "id_slot": 1, "größe": [1.50, None, {"a": "ü"}]},
    }
    server.respond = lambda seen: completion({"content": "a cat"}, {"content": "a dog"})
    bare = make(plain_kind)
    replies = [await done(bare.chat.completions.create(**asked))]
    replies += [await done(wrap(bare, policy=UNPROBED).chat.completions.create(**asked))]
    raw, sent = (seen.json for seen in server.chats)
    assert sent["messages"] != raw["messages"]
    assert sent["messages"][3]["content"][:2] == raw["messages"][3]["content"]
    assert {**sent, "messages": None} == {**raw, "messages": None}
    assert list(sent) == list(raw)
    assert [len(reply.choices) for reply in replies] == [2, 2]


async def test_tools_in_another_order_go_out_as_they_went_first(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    client = wrap(make(plain_kind), policy=UNPROBED)
    for tools in (TOOLS, TOOLS[::-1]):
        await done(client.chat.completions.create(model="m", messages=PLAIN, tools=tools))
    assert server.chats[0].body == server.chats[1].body


@pytest.mark.parametrize("surface", [create, stream])
async def test_a_reply_that_comes_back_changed_goes_out_as_it_was_generated(
    surface: Surface, plain_kind: str, make: Make, server: NullServer
) -> None:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "read_file", "arguments": '{"path":"ä.txt","lines":[1,2]}'},
    }
    reply = {"content": None, "tool_calls": [call]}
    server.scripted.extend([completion(reply) if surface is create else sse(events(reply))])
    client = wrap(make(plain_kind), policy=UNPROBED)
    await surface(client, PLAIN)
    redumped = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "type": "function",
                "function": {
                    "arguments": '{"path": "\\u00e4.txt", "lines": [1, 2]}',
                    "name": "read_file",
                },
                "id": "call_1",
            }
        ],
    }
    result = {"role": "tool", "tool_call_id": "call_1", "content": "text"}
    await surface(client, [*PLAIN, redumped, result])
    sent = server.chats[1].messages[1]
    assert sent["tool_calls"][0]["function"]["arguments"] == call["function"]["arguments"]  # type: ignore[index]


@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("surface", [create, stream, raw_response, streaming_response])
async def test_an_error_is_the_servers_own(
    status: int, surface: Surface, plain_kind: str, make: Make, server: NullServer
) -> None:
    said = {"message": f"error {status}", "type": "some", "code": status}
    body = b'{"error": {"message": "error %d", "type": "some", "code": %d}}' % (status, status)
    server.respond = lambda seen: Answer(body, status=status)
    bare = make(plain_kind)
    errors = []
    happened: list[Event] = []
    for client in (bare, wrap(bare, policy=UNPROBED, on_event=happened.append)):
        with pytest.raises(openai.APIStatusError) as caught:
            await surface(client, TURNS[0])
        errors.append(caught.value)
    assert type(errors[1]) is type(errors[0])
    assert [error.body for error in errors] == [said, said]
    assert errors[1].response.content == body
    assert not [event for event in happened if isinstance(event, TurnFinished)]


@pytest.mark.parametrize("surface", [create, stream])
async def test_a_prompt_that_is_too_long_is_told(
    surface: Surface, plain_kind: str, make: Make, server: NullServer
) -> None:
    server.respond = lambda seen: Answer(
        b'{"error":{"code":400,"message":"the request exceeds the available context size",'
        b'"type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}',
        status=400,
    )
    happened: list[Event] = []
    client = wrap(make(plain_kind), policy=UNPROBED, on_event=happened.append)
    with pytest.raises(openai.BadRequestError):
        await surface(client, PLAIN)
    (overflow,) = (event for event in happened if isinstance(event, kvagent.Overflowed))
    assert (overflow.prompt_tokens, overflow.window) == (5000, 4096)


async def test_retries_of_the_sdk_are_one_turn(
    plain_kind: str, make: Make, server: NullServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    server.scripted.extend([Answer(b"{}", status=500), Answer(b"{}", status=503)])
    happened: list[Event] = []
    client = wrap(make(plain_kind, max_retries=2), policy=UNPROBED, on_event=happened.append)
    await create(client, TURNS[0])
    await create(client, TURNS[1])
    first, second, third, last = server.chats
    assert first.body == second.body == third.body
    assert [seen.header("x-stainless-retry-count") for seen in server.chats] == list("0120")
    turns = [event.turn for event in happened if isinstance(event, TurnFinished)]
    assert turns == [1, 2]
    assert last.messages[:2] == first.messages


async def test_a_server_that_is_away_gives_the_same_error(plain_kind: str, make: Make) -> None:
    bare = make(plain_kind, base_url="http://127.0.0.1:9/v1")
    causes = []
    for client in (bare, wrap(bare, policy=UNPROBED)):
        with pytest.raises(openai.APIConnectionError) as caught:
            await create(client, TURNS[0])
        causes.append(type(caught.value.__cause__))
    assert causes[0] is causes[1]


async def test_timeouts_stay(plain_kind: str, make: Make, server: NullServer) -> None:
    never = Signal()
    server.respond = lambda seen: sse([never])
    client = wrap(make(plain_kind), policy=UNPROBED)
    with pytest.raises(openai.APITimeoutError):
        await create(client.with_options(timeout=0.05), TURNS[0])
    never.set()


@pytest.mark.parametrize("surface", [create, stream])
async def test_gzip_is_read_and_passed_on(
    surface: Surface, plain_kind: str, make: Make, server: NullServer
) -> None:
    def zipped(seen: Seen) -> Answer:
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        if not seen.json.get("stream"):
            return Answer(
                gzip.compress(completion({"content": "done"}, usage=usage).body),  # type: ignore[arg-type]
                headers={"content-encoding": "gzip"},
            )
        *parts, end = events({"content": "done"})
        last = b'data: {"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3}}\n\n'
        whole = gzip.compress(b"".join([*parts, last, end]))
        return sse([whole[:40], whole[40:]], **{"content-encoding": "gzip"})

    server.respond = zipped
    happened: list[Event] = []
    bare = make(plain_kind)
    expected = await surface(bare, PLAIN)
    assert await surface(wrap(bare, policy=UNPROBED, on_event=happened.append), PLAIN) == expected
    (turn,) = (event for event in happened if isinstance(event, TurnFinished))
    assert (turn.prompt_tokens, turn.completion_tokens) == (11, 3)
    assert turn.ttft_s is not None


async def test_a_page_instead_of_a_reply_passes(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    server.respond = lambda seen: Answer(b"<html>", content_type="text/html")
    client = wrap(make(plain_kind), policy=UNPROBED)
    raw = await done(client.chat.completions.with_raw_response.create(model="m", messages=PLAIN))
    assert raw.http_response.content == b"<html>"


async def test_the_session_header_is_read_and_taken_off(
    kind: str, make: Make, server: NullServer
) -> None:
    happened: list[Event] = []
    bare = make(kind)
    await create(bare, PLAIN)
    client = wrap(bare, policy=UNPROBED, on_event=happened.append)
    named = {"X-KVAgent-Session": "ticket-4711"}
    await done(client.chat.completions.create(model="m", messages=PLAIN, extra_headers=named))
    raw, sent = server.chats
    assert (sent.headers, sent.body) == (raw.headers, raw.body)
    assert [event.conversation for event in happened if isinstance(event, TurnFinished)] == [
        "ticket-4711"
    ]


async def test_a_router_is_told_the_conversation(
    make: Make, plain_kind: str, server: NullServer
) -> None:
    policy = Policy(probe=False, hints=Hints(session_header="X-Session-Id"))
    client = wrap(make(plain_kind), policy=policy)
    with kvagent.session("ticket-4711"):
        await create(client, PLAIN)
    await create(client.with_options(default_headers={"x-session-id": "mine"}), PLAIN)
    assert [seen.header("x-session-id") for seen in server.seen] == ["ticket-4711", "mine"]


async def test_sessions_follow_tasks_and_threads(make: Make, server: NullServer) -> None:
    happened: list[Event] = []
    engine = Engine(UNPROBED, on_event=happened.append)
    client = wrap(make("AsyncOpenAI"), engine=engine)
    sync_client = wrap(make("OpenAI"), engine=engine)

    async def task(name: str) -> None:
        with kvagent.session(name):
            await create(client, PLAIN)

    def thread(name: str) -> None:
        with kvagent.session(name):
            sync_client.chat.completions.create(model="m", messages=PLAIN)

    await asyncio.gather(*(task(f"task-{number}") for number in range(4)))
    threads = [Thread(target=thread, args=(f"thread-{number}",)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    names = {event.conversation for event in happened if isinstance(event, TurnFinished)}
    assert names == {f"{where}-{n}" for where in ("task", "thread") for n in range(4)}


async def test_a_signed_body_is_left_alone(plain_kind: str, make: Make, server: NullServer) -> None:
    bare = make(plain_kind, default_headers={"X-Amz-Content-SHA256": "0" * 64})
    await create(bare, TURNS[0])
    await create(wrap(bare, policy=UNPROBED), TURNS[0])
    raw, sent = server.chats
    assert (sent.headers, sent.body) == (raw.headers, raw.body)


@pytest.mark.parametrize("surface", [create, stream])
async def test_an_error_in_the_engine_lets_the_request_out_as_it_came(
    surface: Surface,
    plain_kind: str,
    make: Make,
    server: NullServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken")

    bare = make(plain_kind)
    expected = await surface(bare, TURNS[0])
    monkeypatch.setattr(kvagent.planner, "recognise", broken)
    happened: list[Event] = []
    with caplog.at_level(logging.ERROR, "kvagent"):
        client = wrap(bare, policy=UNPROBED, on_event=happened.append)
        result = await surface(client, TURNS[0])
    raw, sent = server.chats
    assert (sent.headers, sent.body) == (raw.headers, raw.body)
    assert str(result) == str(expected)
    (event,) = happened
    assert isinstance(event, Bypassed)
    assert isinstance(event.error, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text
    assert "Be brief" not in caplog.text  # prompts are private


@pytest.mark.parametrize("surface", [create, stream])
@pytest.mark.parametrize("name", ["outgoing", "answered", "turn"])
async def test_an_error_in_the_adapter_lets_the_request_out_once(
    name: str,
    surface: Surface,
    plain_kind: str,
    make: Make,
    server: NullServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken")

    bare = make(plain_kind)
    expected = await surface(bare, PLAIN)
    monkeypatch.setattr(f"kvagent_openai.exchange.Exchange.{name}", broken)
    with caplog.at_level(logging.ERROR, "kvagent"):
        assert str(await surface(wrap(bare, policy=UNPROBED), PLAIN)) == str(expected)
    raw, sent = server.chats
    assert (sent.headers, sent.body) == (raw.headers, raw.body)
    assert "ZeroDivisionError" in caplog.text


async def test_observing_changes_nothing(plain_kind: str, make: Make, server: NullServer) -> None:
    policy = kvagent.Policy(mode="observe", probe=False)
    bare = make(plain_kind)
    client = wrap(bare, policy=policy)
    for messages in TURNS:
        await create(bare, messages)
        await create(client, messages)
        raw, sent = server.chats[-2:]
        assert (sent.headers, sent.body) == (raw.headers, raw.body)
    assert engine_of(client).policy is policy
