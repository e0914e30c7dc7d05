"""Is a summary asked for beside the engine, again only where that may help, and never at any price?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvagent import wrap
from kvagent.compaction import SummaryFailed, facts_of
from kvagent.compaction.narrative import request
from kvagent_openai import KVAsyncHttpxClient, KVHttpxClient, Summarizer, engine_of, summarizer

from .conftest import UNPROBED, Make, done
from .null_server import CUT, Answer, NullServer, completion, sse

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Current time: 2026-03-01 09:00:01"},
    {"role": "user", "content": "Do it."},
    {"role": "assistant", "content": "Done."},
]
REQUEST = request(
    {"model": "m", "messages": MESSAGES, "top_k": 1}, facts_of(MESSAGES), max_tokens=300
)
TOO_LONG = (
    b'{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}'
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summarizer, "_wait", lambda _state: 0.0)


async def ask(of: Summarizer) -> Any:
    """As an engine would, whatever the client."""
    return await of.acall(REQUEST) if of.is_async else of(REQUEST)


def failing(status: int, body: bytes = b'{"error": {"message": "no"}}') -> Answer:
    return Answer(body, status=status)


async def test_it_posts_the_request_as_it_is(kind: str, make: Make, server: NullServer) -> None:
    server.scripted.append(completion({"content": "It went well."}, usage={"prompt_tokens": 9}))
    reply = await ask(Summarizer(make(kind)))
    (seen,) = server.chats
    assert seen.json == REQUEST
    assert (reply.text, reply.finish_reason, reply.tool_calls) == ("It went well.", "stop", ())
    assert reply.counts["usage"] == {"prompt_tokens": 9}
    assert seen.header("x-stainless-retry-count") in {"0", None}


async def test_it_goes_past_the_engine(kind: str, make: Make, server: NullServer) -> None:
    wrapped = wrap(make(kind), policy=UNPROBED)
    await ask(Summarizer(wrapped))
    (seen,) = server.chats
    assert seen.messages == REQUEST["messages"]
    assert engine_of(wrapped).meter.turns == 0
    await done(wrapped.chat.completions.create(model="m", messages=MESSAGES))
    assert server.chats[-1].messages != MESSAGES


@pytest.mark.parametrize(
    ("kind", "of"), [("OpenAI", KVHttpxClient), ("AsyncOpenAI", KVAsyncHttpxClient)]
)
async def test_it_goes_past_the_engine_of_an_http_client(
    make: Make, server: NullServer, kind: str, of: Callable[..., Any]
) -> None:
    client = make(kind, http_client=of(policy=UNPROBED))
    for given in (client, wrap(client, policy=UNPROBED)):
        await ask(Summarizer(given))
        assert server.chats[-1].messages == REQUEST["messages"]


async def test_a_model_and_a_limit_of_its_own(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    await ask(Summarizer(make(plain_kind), "small", max_tokens=50))
    (seen,) = server.chats
    assert seen.json == {**REQUEST, "model": "small", "max_tokens": 50}


@pytest.mark.parametrize("answer", [failing(429), failing(500), failing(503), Answer([CUT])])
async def test_what_may_pass_is_tried_again(
    plain_kind: str, make: Make, server: NullServer, answer: Answer
) -> None:
    server.scripted.extend([answer, answer, completion({"content": "At last."})])
    reply = await ask(Summarizer(make(plain_kind, max_retries=5)))
    assert reply.text == "At last."
    assert len(server.chats) == 3


async def test_not_more_often_than_said(plain_kind: str, make: Make, server: NullServer) -> None:
    server.respond = lambda _seen: failing(503)
    with pytest.raises(SummaryFailed, match="503"):
        await ask(Summarizer(make(plain_kind, max_retries=5), attempts=2))
    assert len(server.chats) == 2


@pytest.mark.parametrize(
    "answer", [failing(400), failing(401), failing(404), failing(500, TOO_LONG)]
)
async def test_what_will_not_pass_is_not_tried_again(
    plain_kind: str, make: Make, server: NullServer, answer: Answer
) -> None:
    server.respond = lambda _seen: answer
    with pytest.raises(SummaryFailed):
        await ask(Summarizer(make(plain_kind, max_retries=5)))
    assert len(server.chats) == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<html>busy</html>", content_type="text/html"),
        Answer(b"{}"),
        Answer(b'{"choices": []}'),
        Answer(b'{"choices": [{"message": null}]}'),
        Answer(b"[1]"),
        Answer(b"{not json"),
        sse([b"data: {}\n\n", b"data: [DONE]\n\n"]),
    ],
)
async def test_an_answer_that_is_none(
    plain_kind: str, make: Make, server: NullServer, answer: Answer
) -> None:
    server.respond = lambda _seen: answer
    with pytest.raises(SummaryFailed):
        await ask(Summarizer(make(plain_kind)))
    assert len(server.chats) == 1


async def test_an_empty_or_unfinished_answer_is_passed_on(make: Make, server: NullServer) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    server.scripted.append(completion({"content": None, "tool_calls": [call]}))
    reply = await ask(Summarizer(make("OpenAI")))
    assert (reply.text, reply.finish_reason, reply.tool_calls) == ("", "tool_calls", [call])


async def test_it_is_silent_for_a_while_after_failures(
    plain_kind: str, make: Make, server: NullServer
) -> None:
    now = 0.0
    of = Summarizer(make(plain_kind), attempts=1, failures=3, silence_s=60, clock=lambda: now)
    server.respond = lambda _seen: failing(400)
    for _ in range(5):
        with pytest.raises(SummaryFailed):
            await ask(of)
    assert len(server.chats) == 3
    now = 61.0
    for _ in range(3):
        with pytest.raises(SummaryFailed):
            await ask(of)
    assert len(server.chats) == 4  # one to try
    now = 122.0
    server.respond = lambda _seen: completion({"content": "Back."})
    for _ in range(3):
        assert (await ask(of)).text == "Back."


async def test_an_unreachable_server(make: Make) -> None:
    import openai

    client = make(type("Nowhere", (openai.OpenAI,), {}))
    client.base_url = "http://127.0.0.1:9/v1"
    with pytest.raises(SummaryFailed, match="Connection"):
        await ask(Summarizer(client, attempts=2))


async def test_a_synchronous_client_under_an_event_loop(make: Make, server: NullServer) -> None:
    reply = await Summarizer(make("OpenAI")).acall(REQUEST)
    assert reply.text.startswith("reply ")


def test_an_asynchronous_client_without_one() -> None:
    import openai

    client = openai.AsyncOpenAI(api_key="x", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(SummaryFailed, match="acall"):
        Summarizer(client)(REQUEST)


@pytest.mark.parametrize("thing", [None, object(), "http://localhost:8000/v1"])
def test_something_else_than_a_client(thing: Any) -> None:
    with pytest.raises(TypeError, match="no client of the OpenAI SDK"):
        Summarizer(thing)


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


def test_on_a_real_server_nearly_all_of_it_is_cached(tmp_path: Path) -> None:
    """The conversation was sent before; the summary call computes hardly more than the instruction."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    import openai

    from kvagent.backends import usage_of
    from kvagent.cli.demo.server import LlamaCpp, ServerError, default_model
    from tests.tiny_model import SLIM, write

    try:
        vocabulary = default_model()
    except ServerError as error:
        pytest.skip(str(error))
    model = write(tmp_path / "tiny.gguf", vocabulary, SLIM)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read all the files."}]
    for number in range(12):
        call_id, arguments = f"call_{number}", json.dumps({"path": f"src/part_{number}.py"})
        function = {"name": "read", "arguments": arguments}
        messages += [
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {
                "role": "tool",
                "tool_call_id": call_id,
                "content": f"def part_{number}():\n    return {number}\n" * 40,
            },
        ]
    body = {"model": "tiny", "messages": messages, "tools": TOOLS, "tool_choice": "auto"}
    with (
        LlamaCpp(model, n_ctx=16_384, threads=1, parse_tool_calls=False) as server,
        openai.OpenAI(base_url=server.base_url, api_key="x", timeout=300) as client,
    ):
        client.post("/chat/completions", cast_to=object, body={**body, "max_tokens": 1})
        asked = request(body, facts_of(messages), max_tokens=8)
        reply = Summarizer(client, timeout_s=300)(asked)
    usage = usage_of(reply.counts)
    assert usage.prompt_tokens is not None
    assert usage.cached_tokens is not None
    assert usage.cached_tokens / usage.prompt_tokens >= 0.85
