"""Does a caller get one reply as ever, where the model asked kvagent something in between?"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from threading import Event as Signal
from typing import Any

import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent import Engine, Policy, Recall
from kvagent.events import Bypassed, Event, PrefixBroken, TurnFinished
from kvagent.recall import RECALL, TOOL
from kvagent_openai import wrap
from kvagent_openai.sieve import Sieve

from .conftest import Make, done, listed
from .null_server import CUT, Answer, NullServer, Seen, completion, events, sse

LONG = "\n".join(
    f"line {n}: job {n * 7919 % 100_003} took {n * 31 % 997} ms" for n in range(1, 901)
)
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
]
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Look."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call-1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "call-1", "content": LONG},
]
FINAL = {"content": "Job 7919 took 31 ms."}
USAGE = b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"null","choices":[],'


def usage_chunk(prompt: int) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": 7, "total_tokens": prompt + 7}
    return USAGE + b'"usage":' + json.dumps(usage).encode() + b"}\n\n"


def calling(name: str, arguments: dict[str, Any], id: str, content: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "content": content or None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def handle_in(seen: Seen) -> str:
    return str(seen.messages[2]["content"]).split('recall("')[1].split('"')[0]


class Model:
    """Asks for lines of the long result so many times, then says its last word."""

    def __init__(self, times: int = 1, final: Any = FINAL, text: str = "") -> None:
        self.times = times
        self.final = final
        self.text = text
        self.asked = 0

    def __call__(self, seen: Seen) -> Answer:
        if self.asked >= self.times:
            reply = self.final(seen) if callable(self.final) else self.final
        else:
            self.asked += 1
            part = {"handle": handle_in(seen), "lines": f"{self.asked}"}
            reply = calling(RECALL, part, f"ask-{self.asked}", self.text)
        if isinstance(reply, Answer):
            return reply
        if not seen.json.get("stream"):
            return completion(reply)
        *chunks, end = events(reply)
        more = [usage_chunk(100 + self.asked)] if seen.json.get("stream_options") else []
        return sse([*chunks, *more, end])


@pytest.fixture
def happened() -> list[Event]:
    return []


@pytest.fixture
def engine(happened: list[Event]) -> Engine:
    return Engine(Policy(probe=False, recall=Recall()), on_event=happened.append)


async def create(client: Any, messages: list[dict[str, Any]] = HISTORY, **options: Any) -> Any:
    options.setdefault("tools", TOOLS)
    return await done(client.chat.completions.create(model="m", messages=messages, **options))


def joined(chunks: list[Any]) -> dict[str, Any]:
    """The message that a caller puts together of a stream."""
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    calls: dict[int, dict[str, str]] = {}
    for chunk in chunks:
        for part in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            one = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            one["id"] += part.id or ""
            one["name"] += part.function.name or ""
            one["arguments"] += part.function.arguments or ""
    return {"content": text, "calls": list(calls.values())}


def told(seen: Seen) -> list[str]:
    return [m["content"] for m in seen.messages if str(m.get("tool_call_id")).startswith("ask-")]


# -- whole replies


async def test_the_caller_has_the_last_reply(
    kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = Model(2)
    reply = await create(wrap(make(kind), engine=engine))
    assert reply.choices[0].message.content == FINAL["content"]
    assert reply.choices[0].finish_reason == "stop"
    assert [len(seen.messages) for seen in server.chats] == [3, 5, 7]
    assert [seen.json["tools"][-1] for seen in server.chats] == [TOOL] * 3
    assert told(server.chats[-1]) == [line + "\n" for line in LONG.split("\n")[:2]]


async def test_the_next_turn_begins_with_the_prompt_of_this_one(
    plain_kind: str, make: Make, server: NullServer, engine: Engine, happened: list[Event]
) -> None:
    server.respond = Model(1)
    client = wrap(make(plain_kind), engine=engine)
    for stream in (False, True):
        server.seen.clear()
        server.respond = Model(1)
        first = await create(client, stream=stream)
        if stream:
            message = {"role": "assistant", "content": joined(await listed(first))["content"]}
        else:
            message = first.choices[0].message.model_dump()
        await create(client, [*HISTORY, message, {"role": "user", "content": "And?"}])
        before, after = server.chats[-2].messages, server.chats[-1].messages
        assert after[: len(before)] == before
        assert after[len(before)]["content"] == FINAL["content"]
    assert not [event for event in happened if isinstance(event, PrefixBroken | Bypassed)]


async def test_raw_and_streamed_responses_of_a_whole_reply(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    client = wrap(make(plain_kind), engine=engine)
    options: dict[str, Any] = {"model": "m", "messages": HISTORY, "tools": TOOLS}
    server.respond = Model(1)
    raw = await done(client.chat.completions.with_raw_response.create(**options))
    assert raw.parse().choices[0].message.content == FINAL["content"]
    server.respond = Model(1)
    manager = client.chat.completions.with_streaming_response.create(**options)
    if hasattr(manager, "__aenter__"):
        async with manager as response:
            body = await response.json()
    else:
        with manager as response:
            body = response.json()
    assert body["choices"][0]["message"]["content"] == FINAL["content"]


async def test_an_error_of_the_further_request_is_the_callers(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    error = Answer(b'{"error": {"message": "overheated"}}', status=418)
    server.respond = Model(1, final=error)
    with pytest.raises(openai.APIStatusError, match="overheated"):
        await create(wrap(make(plain_kind), engine=engine))


async def test_a_connection_cut_off_is_retried_by_the_sdk(
    plain_kind: str,
    make: Make,
    server: NullServer,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    cut = [Answer([b'{"choices": [', CUT])]
    server.respond = Model(1, final=lambda seen: cut.pop() if cut else FINAL)
    reply = await create(wrap(make(plain_kind, max_retries=1), engine=engine))
    assert reply.choices[0].message.content == FINAL["content"]


# -- streams


@pytest.mark.parametrize("text", ["", "Let me look. "])
async def test_a_stream_goes_on_with_the_last_reply(
    text: str, kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = Model(2, text=text)
    stream = await create(wrap(make(kind), engine=engine), stream=True)
    assert joined(await listed(stream)) == {"content": 2 * text + FINAL["content"], "calls": []}
    assert [len(seen.messages) for seen in server.chats] == [3, 5, 7]


async def test_text_is_passed_on_before_the_question_is_known(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    asked = Signal()

    def respond(seen: Seen) -> Answer:
        if len(seen.messages) > 3:
            return sse(events(FINAL))
        reply = calling(RECALL, {"handle": handle_in(seen), "lines": "1"}, "ask-1", "Let me look.")
        chunks = events(reply)
        at = next(n for n, chunk in enumerate(chunks) if b"tool_calls" in chunk)
        return sse([*chunks[:at], asked, *chunks[at:]])

    server.respond = respond
    stream = await create(wrap(make(plain_kind, timeout=5), engine=engine), stream=True)
    text = ""
    while text != "Let me look.":
        chunk = await anext(stream) if hasattr(stream, "__anext__") else next(stream)
        text += chunk.choices[0].delta.content or ""
    asked.set()
    assert joined(await listed(stream))["content"] == FINAL["content"]


async def test_the_streamed_reply_ends_as_any(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    """One reason to finish, one count, and nothing of the questions."""
    server.respond = Model(2)
    client = wrap(make(plain_kind), engine=engine)
    stream = await create(client, stream=True, stream_options={"include_usage": True})
    chunks = await listed(stream)
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert [reason for reason in reasons if reason] == ["stop"]
    assert [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage] == [102]
    assert RECALL not in repr(chunks)


async def test_the_sdks_own_stream_helper(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = Model(1, text="Let me look. ")
    client = wrap(make(plain_kind), engine=engine)
    strict: list[Any] = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "strict": True}}]
    manager = client.chat.completions.stream(model="m", messages=HISTORY, tools=strict)
    if hasattr(manager, "__aenter__"):
        async with manager as opened:
            reply = await opened.get_final_completion()
    else:
        with manager as opened:
            reply = opened.get_final_completion()
    assert reply.choices[0].message.content == "Let me look. " + FINAL["content"]


@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("chunking", ["events", "at once", "byte by byte"])
async def test_an_ordinary_call_comes_whole_and_in_order(
    chunking: str, crlf: bool, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    reply = calling("run", {"command": "ls -l"}, "call-2", "I will run it.")
    reply["tool_calls"] += calling("run", {"command": "pwd"}, "call-3")["tool_calls"]
    chunks = [chunk.replace(b"\n", b"\r\n") if crlf else chunk for chunk in events(reply)]
    whole = b"".join(chunks)
    if chunking != "events":
        chunks = [whole] if chunking == "at once" else [bytes([byte]) for byte in whole]
    server.respond = lambda seen: sse(chunks)
    client = wrap(make(plain_kind), engine=engine)
    manager = client.chat.completions.with_streaming_response.create(
        model="m", messages=HISTORY, tools=TOOLS, stream=True
    )
    if hasattr(manager, "__aenter__"):
        async with manager as response:
            had = [chunk async for chunk in response.http_response.aiter_raw()]
    else:
        with manager as response:
            had = list(response.http_response.iter_raw())
    assert b"".join(had) == whole
    assert len(server.chats) == 1


@pytest.mark.parametrize(
    "content",
    ['He said "tool_calls" to me.', '{"tool_calls": [1]}', "data: tool_calls\n\ndata: x"],
)
async def test_text_that_looks_like_a_call_is_passed_on(
    content: str, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    server.respond = lambda seen: sse(events({"content": content}))
    stream = await create(wrap(make(plain_kind), engine=engine), stream=True)
    assert joined(await listed(stream))["content"] == content


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (Answer(b'{"error": {"message": "overheated"}}', status=500), "overheated"),
        (Answer(b'{\n "error": {\n "message": "overheated"}}', status=400), "overheated"),
        (Answer(b'{"detail": "overheated"}', status=422), "overheated"),
        (Answer(b"<html>Bad Gateway</html>", 502, "text/html"), "Bad Gateway"),
        (Answer(b"", 503), "503"),
    ],
)
async def test_a_further_request_that_fails_is_an_error_in_the_stream(
    error: Answer,
    says: str,
    plain_kind: str,
    make: Make,
    server: NullServer,
    engine: Engine,
    happened: list[Event],
) -> None:
    server.respond = Model(1, final=error, text="Let me look. ")
    stream = await create(wrap(make(plain_kind), engine=engine), stream=True)
    with pytest.raises(openai.APIError) as caught:
        await listed(stream)
    assert says in f"{caught.value.message} {caught.value.body}"
    await done(stream.close())
    assert [event.turn for event in happened if isinstance(event, TurnFinished)] == [1]


async def test_a_further_request_that_is_cut_off_raises(
    plain_kind: str, make: Make, server: NullServer, engine: Engine, happened: list[Event]
) -> None:
    server.respond = Model(1, final=sse([*events(FINAL)[:3], CUT]), text="Let me look. ")
    client = wrap(make(plain_kind), engine=engine)
    stream = await create(client, stream=True)
    with pytest.raises(Exception, match=r"\w"):  # the SDK's versions differ in which
        await listed(stream)
    server.respond = Model(1)
    await listed(await create(client, stream=True))
    message = {"role": "assistant", **FINAL}
    await create(client, [*HISTORY, message, {"role": "user", "content": "And?"}])
    before, after = server.chats[-2].messages, server.chats[-1].messages
    assert after[: len(before)] == before
    assert not [event for event in happened if isinstance(event, Bypassed)]


@pytest.mark.parametrize("when", ["at once", "before the question", "in the answer"])
async def test_a_stream_given_up_keeps_nothing_of_it(
    when: str, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    never = Signal()

    def respond(seen: Seen) -> Answer:
        if len(seen.messages) > 3:
            return sse([*events(FINAL)[:4], never])
        reply = calling(RECALL, {"handle": handle_in(seen), "lines": "1"}, "ask-1", "Let me look.")
        chunks = events(reply)
        at = next(n for n, chunk in enumerate(chunks) if b"tool_calls" in chunk)
        wait = [never] if when == "before the question" else []
        return sse([*chunks[:at], *wait, *chunks[at:]])

    server.respond = respond
    client = wrap(make(plain_kind, timeout=5), engine=engine)
    stream = await create(client, stream=True)
    wanted = {"at once": "", "before the question": "Let", "in the answer": "Let me look.Job"}[when]
    text = ""
    while text != wanted:
        chunk = await anext(stream) if hasattr(stream, "__anext__") else next(stream)
        text += chunk.choices[0].delta.content or ""
    await done(stream.close())
    never.set()
    assert len(server.chats) == (2 if when == "in the answer" else 1)
    tree = engine.ledger.tree("", "m")
    assert not tree.answered
    server.respond = lambda seen: completion(FINAL)
    await create(client)
    assert server.chats[-1].messages == server.chats[0].messages


async def test_connections_are_given_back(
    plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    used = []
    for times, client in ((0, make(plain_kind)), (2, wrap(make(plain_kind), engine=engine))):
        server.connections = 0
        for _ in range(3):
            server.respond = Model(times)
            await listed(await create(client, stream=True))
            server.respond = Model(times)
            await create(client)
        used.append(server.connections)
    assert used[0] == used[1]


async def test_an_encoded_stream_cannot_be_answered_and_is_the_callers(
    plain_kind: str, make: Make, server: NullServer, engine: Engine, happened: list[Event]
) -> None:
    """The question reaches the agent, and the turn is kept as any other."""

    def respond(seen: Seen) -> Answer:
        reply = calling(RECALL, {"handle": handle_in(seen), "lines": "1"}, "ask-1")
        body = gzip.compress(b"".join(events(reply)))
        return sse([body], **{"content-encoding": "gzip"})

    server.respond = respond
    stream = await create(wrap(make(plain_kind), engine=engine), stream=True)
    (asked,) = joined(await listed(stream))["calls"]
    assert asked["name"] == RECALL
    assert len(server.chats) == 1
    assert [event.turn for event in happened if isinstance(event, TurnFinished)] == [1]


async def test_an_error_inside_kvagent_leaves_the_question_to_the_caller(
    plain_kind: str,
    make: Make,
    server: NullServer,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr("kvagent.form.Form.with_more", fail)
    client = wrap(make(plain_kind), engine=engine)
    server.respond = Model(1)
    (asked,) = joined(await listed(await create(client, stream=True)))["calls"]
    assert asked["name"] == RECALL
    server.respond = Model(1)
    reply = await create(client)
    assert reply.choices[0].message.tool_calls[0].function.name == RECALL


def cut(whole: bytes, places: set[int]) -> list[bytes]:
    ends = sorted(places | {len(whole)})
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(
    st.lists(st.sampled_from(["text", "call", "odd"]), max_size=6),
    st.sets(st.integers(0, 2_000), max_size=40),
    st.sampled_from([b"\n\n", b"\r\n\r\n"]),
)
def test_however_a_stream_is_cut_nothing_is_lost_and_no_call_passes(
    kinds: list[str], places: set[int], end: bytes
) -> None:
    delta = {
        "text": {"content": "Grüße: tool_calls, \n\n and all"},
        "call": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]},
        "odd": {"content": "x", "tool_calls": []},
    }
    parts = [b"data: " + orjson.dumps({"choices": [{"delta": delta[kind]}]}) for kind in kinds]
    stream = [part + end for part in parts] + [b"data: [DONE]" + end]
    whole = b"".join(stream)
    sieve = Sieve()
    chunks = cut(whole, {place for place in places if place < len(whole)})
    passed = b"".join(map(sieve.passed, chunks))
    first = kinds.index("call") if "call" in kinds else len(stream)
    assert passed == b"".join(stream[:first])
    assert passed + sieve.held() == whole
    assert sieve.held() == b""


# -- who answers


async def test_the_agent_answers_where_the_policy_says_so(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    engine = Engine(Policy(probe=False, recall=Recall(answer="agent")))
    client = wrap(make(plain_kind), engine=engine)
    server.respond = Model(9)
    (asked,) = joined(await listed(await create(client, stream=True)))["calls"]
    assert asked["name"] == RECALL
    assert json.loads(asked["arguments"])["lines"] == "1"
    text = engine.recall(**json.loads(asked["arguments"]))
    assert text == LONG.split("\n")[0] + "\n"


Options = Callable[[], dict[str, Any]]


@pytest.mark.parametrize("tools", [None, [*TOOLS, TOOL]])
async def test_calls_are_held_back_only_where_the_tool_is_kvagents(
    tools: Any, plain_kind: str, make: Make, server: NullServer, engine: Engine
) -> None:
    """Without tools, or with an agent's own tool of that name, a stream passes as it comes."""
    held = Signal()
    chunks = events(calling(RECALL, {"handle": "r0123456789ab"}, "ask-1"))
    at = next(n for n, chunk in enumerate(chunks) if b"tool_calls" in chunk) + 1
    server.respond = lambda seen: sse([*chunks[:at], held, *chunks[at:]])
    options = {"tools": tools} if tools else {"tools": openai.NOT_GIVEN}
    stream = await create(wrap(make(plain_kind, timeout=5), engine=engine), stream=True, **options)
    called = ""
    while not called:
        chunk = await anext(stream) if hasattr(stream, "__anext__") else next(stream)
        parts = chunk.choices[0].delta.tool_calls or []
        called = "".join(part.function.name or "" for part in parts)
    held.set()
    await listed(stream)
    assert called == RECALL
    assert len(server.chats) == 1
