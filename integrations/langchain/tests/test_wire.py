"""Is what kvagent thinks that ChatOpenAI sends what it sends, byte for byte?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import BaseTool, StructuredTool, Tool, tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field, SecretStr

from kvagent.backends import usage_of
from kvagent_langchain import wire

from .messages import message_lists

rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow],
)

USAGE = {
    "prompt_tokens": 20,
    "completion_tokens": 5,
    "total_tokens": 25,
    "prompt_tokens_details": {"cached_tokens": 16},
}


class Sent:
    """A ChatOpenAI whose requests are kept, and whose answers are said beforehand."""

    def __init__(self) -> None:
        self.body = b""
        self.answer: dict[str, Any] = {}
        self.stream: list[dict[str, Any]] = []
        self.client = httpx.Client(transport=httpx.MockTransport(self._answered))
        self.model = ChatOpenAI(
            model="m",
            base_url="http://model.example/v1",
            api_key=SecretStr("x"),
            http_client=self.client,
        )

    def _answered(self, request: httpx.Request) -> httpx.Response:
        self.body = request.read()
        if self.stream:
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in self.stream]
            return httpx.Response(
                200, text="".join(lines), headers={"content-type": "text/event-stream"}
            )
        return httpx.Response(200, json=completion(**self.answer))

    def messages(self, messages: Sequence[BaseMessage], **options: Any) -> bytes:
        """The bytes of the list of messages in the request for these."""
        self.model.invoke(list(messages), **options)
        return _of(self.body, "messages")


def completion(
    message: dict[str, Any] | None = None,
    finish_reason: str = "stop",
    usage: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "ok", **(message or {})},
                "finish_reason": finish_reason,
            }
        ],
        "usage": USAGE if usage is None else usage,
    }


def _of(body: bytes, key: str) -> bytes:
    """The bytes of a value in a body, as they stand there."""
    text = body.decode()
    at = text.index(f'"{key}":') + len(key) + 3
    _, end = json.JSONDecoder().raw_decode(text, at)
    return text[at:end].encode()


def dumped(value: Any) -> bytes:
    """JSON as the OpenAI SDK writes it."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()  # fmt: skip


@pytest.fixture(scope="module")
def sent() -> Iterator[Sent]:
    sent = Sent()
    yield sent
    sent.client.close()


CALL = {"name": "read", "args": {"path": "ä.py", "n": [1, 2.0, None]}, "id": "call_1"}
OTHER = {"name": "bash", "args": {}, "id": "call_2"}
INVALID = {"name": "read", "args": '{"path": "a', "id": "call_3", "error": "no JSON"}
RAW = [
    {
        "id": "call_1",
        "type": "function",
        "function": {"name": "read", "arguments": '{"path":"ä.py","n":[1,2.0,null]}'},
    }
]
PNG = "https://a.example/x.png"
WITH_BREAKPOINT = {"extras": {"prompt_cache_breakpoint": {"type": "ephemeral"}}}

KINDS: dict[str, BaseMessage] = {
    "user": HumanMessage("hello"),
    "user with a name": HumanMessage("hello", name="Ada"),
    "user with a name beside": HumanMessage("hello", additional_kwargs={"name": "Ada"}),
    "user with an empty name": HumanMessage("hello", name=""),
    "nothing said": HumanMessage(""),
    "no blocks": HumanMessage([]),
    "unicode": HumanMessage('naïve 日本 👩‍👩‍👧 𝒳 \u2028 \x00 \ufeff "quoted" \\ /'),
    "blocks of text": HumanMessage(["a", {"type": "text", "text": "b", "cache_control": {}}]),
    "text with a breakpoint": HumanMessage([{"type": "text", "text": "b", **WITH_BREAKPOINT}]),
    "image by its URL": HumanMessage([{"type": "image", "url": PNG, "id": "i"}]),
    "image": HumanMessage([{"type": "image", "base64": "AAAA", "mime_type": "image/png"}]),
    "image with a breakpoint": HumanMessage([{"type": "image", "url": PNG, **WITH_BREAKPOINT}]),
    "image of OpenAI": HumanMessage(
        [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}]
    ),
    "image of Anthropic": HumanMessage(
        [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
            },
            {"type": "image", "source": {"type": "url", "url": PNG}},
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
        ]
    ),
    "image before v1": HumanMessage(
        [
            {"type": "image", "source_type": "url", "url": PNG},
            {
                "type": "image",
                "source_type": "base64",
                "data": "AAAA",
                "mime_type": "image/png",
            },
        ]
    ),
    "audio": HumanMessage([{"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"}]),
    "audio of OpenAI": HumanMessage(
        [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]
    ),
    "audio before v1": HumanMessage(
        [{"type": "audio", "source_type": "base64", "data": "AAAA", "mime_type": "audio/wav"}]
    ),
    "file": HumanMessage(
        [{"type": "file", "base64": "AAAA", "mime_type": "text/csv", "filename": "a.csv"}]
    ),
    "file with a name in the extras": HumanMessage(
        [
            {
                "type": "file",
                "base64": "AAAA",
                "mime_type": "text/csv",
                "extras": {"filename": "a.csv"},
            }
        ]
    ),
    "file by its id": HumanMessage([{"type": "file", "file_id": "file-1"}]),
    "file of OpenAI": HumanMessage(
        [
            {
                "type": "file",
                "file": {"file_data": "data:text/csv;base64,AAAA", "filename": "a.csv"},
            },
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "file", "file": {"file_data": "AAAA", "filename": "a.csv"}},
        ]
    ),
    "file before v1": HumanMessage(
        [
            {
                "type": "file",
                "source_type": "base64",
                "data": "AAAA",
                "mime_type": "application/pdf",
                "filename": "a.pdf",
            },
            {"type": "file", "source_type": "id", "id": "file-1"},
        ]
    ),
    "system": SystemMessage("be brief", name="boss"),
    "developer": SystemMessage("be brief", additional_kwargs={"__openai_role__": "developer"}),
    "system in blocks": SystemMessage([{"type": "text", "text": "be brief"}]),
    "assistant": AIMessage("hello", name="bob", id="run-1"),
    "assistant with no text": AIMessage(""),
    "one call": AIMessage("", tool_calls=[CALL]),
    "text and parallel calls": AIMessage("I look.", tool_calls=[CALL, OTHER]),
    "calls and no blocks": AIMessage([], tool_calls=[CALL]),
    "a call that is no JSON": AIMessage("", invalid_tool_calls=[INVALID]),
    "calls of both kinds": AIMessage("", tool_calls=[CALL], invalid_tool_calls=[INVALID]),
    "calls as generated": AIMessage("", additional_kwargs={"tool_calls": RAW}),
    "calls nobody parsed": AIMessage("", additional_kwargs={"tool_calls": [{"id": "a", "x": 1}]}),
    "no raw calls": AIMessage("", additional_kwargs={"tool_calls": []}),
    "function call": AIMessage(
        "", additional_kwargs={"function_call": {"name": "read", "arguments": "{}"}}
    ),
    "spoken": AIMessage("", additional_kwargs={"audio": {"id": "audio_1", "data": "AAAA"}}),
    "spoken, in blocks": AIMessage([{"type": "audio", "id": "audio_1"}]),
    "reasoning beside": AIMessage("42", additional_kwargs={"reasoning_content": "6*7"}),
    "assistant in blocks of v1": AIMessage(
        [
            {"type": "reasoning", "reasoning": "hm"},
            {"type": "text", "text": "I look.", "annotations": [], "id": "t"},
            {"type": "tool_call", **CALL},
            {"type": "invalid_tool_call", **INVALID},
        ]
    ),
    "a refusal": AIMessage([{"type": "refusal", "refusal": "no", "id": "r"}]),
    "a refusal without words": AIMessage([{"type": "refusal", "refusal": ""}]),
    "assistant of Anthropic": AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "read", "input": CALL["args"]},
        ],
        tool_calls=[CALL],
    ),
    "a chunk": AIMessageChunk(
        content="",
        tool_call_chunks=[{"name": "read", "args": '{"a": 1}', "id": "call_1", "index": 0}],
    ),
    "chunks added up": AIMessageChunk(content="he") + AIMessageChunk(content="llo"),
    "result": ToolMessage("42", tool_call_id="call_1", name="read", status="error", artifact=[1]),
    "empty result": ToolMessage("", tool_call_id="call_1"),
    "result in blocks": ToolMessage(
        ["a", {"type": "text", "text": "b", "id": "t"}, {"type": "image", "url": PNG}],
        tool_call_id="call_1",
    ),
    "result of a function": FunctionMessage(content="42", name="read"),
    "any role": ChatMessage(content="hello", role="critic", name="c"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_message_is_sent_as_kvagent_says(sent: Sent, kind: str) -> None:
    message = KINDS[kind]
    before = deepcopy(message)
    assert dumped([wire.message(message)]) == sent.messages([message])
    assert message == before


@rule
@given(messages=message_lists)
def test_random_messages_are_sent_as_kvagent_says(sent: Sent, messages: list[BaseMessage]) -> None:
    before = deepcopy(messages)
    assert dumped([wire.message(message) for message in messages]) == sent.messages(messages)
    assert messages == before


def test_a_stream_is_asked_for_with_the_same_messages(sent: Sent) -> None:
    sent.stream = chunks(finish_reason="stop")
    try:
        list(sent.model.stream(list(KINDS.values())))
    finally:
        sent.stream = []
    assert dumped([wire.message(message) for message in KINDS.values()]) == _of(
        sent.body, "messages"
    )


@pytest.mark.parametrize(
    "block",
    [
        {"type": "file", "url": "https://a.example/x.pdf"},
        {"type": "audio", "url": "https://a.example/x.wav"},
        {"type": "video", "base64": "AAAA", "mime_type": "video/mp4"},
        {"type": "image", "base64": "AAAA"},
        {"type": "file", "source_type": "text", "url": "said", "mime_type": "text/plain"},
    ],
)
def test_what_chat_openai_refuses_stands_as_it_is(sent: Sent, block: dict[str, Any]) -> None:
    message = HumanMessage([block])
    with pytest.raises((KeyError, ValueError)):
        sent.messages([message])
    assert wire.message(message)["content"] == [block]


def test_what_no_model_is_sent_is_no_message() -> None:
    with pytest.raises(TypeError, match="RemoveMessage"):
        wire.message(RemoveMessage(id="1"))


def test_a_message_without_what_was_generated_is_sent_as_it_is() -> None:
    for message in (*KINDS.values(),):
        if not message.additional_kwargs:
            form = wire.message(message)
            assert wire.as_generated(message, form) is form


def generated(*arguments: str, **kept: Any) -> AIMessage:
    """The answer that ChatOpenAI makes of such arguments, with them kept beside."""
    raw = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "read", "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    sent = Sent()
    sent.answer = {"message": {"content": None, "tool_calls": raw}}
    answer = sent.model.invoke("hello")
    assert isinstance(answer, AIMessage)
    return answer.model_copy(update={"additional_kwargs": {"tool_calls": raw, **kept}})


@pytest.mark.parametrize(
    "arguments",
    [
        ['{"a":1,"b":[1,2]}'],
        ['{"a": 1}', '{"b":2}'],
        ['{ "a" : "\\u00e4" }'],
        ['{"a": "line\nbreak"}'],
        [""],
        ["null"],
        ['{"a":1', '{"a":2}'],
        ["not json", "{}", "nor this"],
        ['{"a":12345678901234567890}'],
        ["{}", "{}"],
    ],
)
def test_arguments_are_sent_as_they_were_generated(arguments: list[str]) -> None:
    answer = generated(*arguments)
    form = wire.as_generated(answer, wire.message(answer))
    assert form["tool_calls"] == answer.additional_kwargs["tool_calls"]
    assert list(form) == ["content", "role", "tool_calls"]


def test_arguments_that_were_edited_are_sent_as_edited() -> None:
    answer = generated('{"a":1}', '{"b":2}')
    first, second = answer.tool_calls
    for calls in ([second, first], [first], [first, {**second, "args": {"b": 3}}], []):
        edited = answer.model_copy(update={"tool_calls": calls})
        form = wire.message(edited)
        if calls:  # else what is kept is all there is
            assert wire.as_generated(edited, form) is form


@pytest.mark.parametrize(
    "raw", [None, "x", [None], [{}], [{"function": {"arguments": 1}}], {"a": 1}]
)
def test_raw_calls_that_are_none_do_no_harm(raw: Any) -> None:
    answer = AIMessage("", tool_calls=[OTHER], additional_kwargs={"tool_calls": raw})
    form = wire.message(answer)
    assert wire.as_generated(answer, form) is form


def test_reasoning_is_sent_under_the_name_it_came_under() -> None:
    for key in ("reasoning_content", "reasoning"):
        answer = AIMessage("42", additional_kwargs={key: "6*7"})
        form = wire.message(answer)
        assert wire.as_generated(answer, form) == {**form, key: "6*7"}
    # what the responses API says is no text, and the user's reasoning is no model's
    for other in (
        AIMessage("42", additional_kwargs={"reasoning": {"summary": []}}),
        AIMessage("42", additional_kwargs={"reasoning": ""}),
        HumanMessage("42", additional_kwargs={"reasoning": "6*7"}),
    ):
        form = wire.message(other)
        assert wire.as_generated(other, form) is form


class Read(BaseModel):
    """Reads a file."""

    path: str = Field(description="which")
    lines: list[int] | None = None


@tool
def bash(command: str, timeout: int = 5) -> str:
    """Runs a command."""
    return command


def search(query: str) -> str:
    """Looks for something.

    Args:
        query: what
    """
    return query


def extra(**extras: Any) -> BaseTool:
    return StructuredTool.from_function(search, extras=extras)


TOOLS: dict[str, Any] = {
    "a tool": bash,
    "a pydantic class": Read,
    "a function": search,
    "a tool of one text": Tool(name="say", description="Says it.", func=str),
    "OpenAI's form": {"type": "function", "function": {"name": "f", "parameters": {}}},
    "a bare function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
    "a schema": {"title": "T", "description": "d", "type": "object", "properties": {}},
    "Anthropic's form": {"name": "f", "description": "d", "input_schema": {"type": "object"}},
    "loaded later": extra(defer_loading=True),
    "beside others": extra(**{"async": True, "other": 1}),
}


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize("strict", [None, True])
def test_each_kind_of_tool_is_sent_as_kvagent_says(
    sent: Sent, kind: str, strict: bool | None
) -> None:
    given = TOOLS[kind]
    before = deepcopy(given) if isinstance(given, dict) else None
    sent.model.bind_tools([given], strict=strict).invoke("hello")
    assert dumped(wire.tools([given], strict=strict)) == _of(sent.body, "tools")
    assert before is None or given == before


def test_all_tools_are_sent_in_their_order(sent: Sent) -> None:
    sent.model.bind_tools(list(TOOLS.values())).invoke("hello")
    assert dumped(wire.tools(list(TOOLS.values()))) == _of(sent.body, "tools")


def chunks(finish_reason: str | None, usage: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A streamed answer."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": "ok"}]
    found: list[dict[str, Any]] = [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    if finish_reason is not None:
        found.append(
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}
        )
    if usage is not None:
        found.append({**base, "choices": [], "usage": usage})
    return found


def answered(answer: Any) -> AIMessage:
    assert isinstance(answer, AIMessage)
    return answer


def test_a_reply_is_what_the_server_generated_and_counted(sent: Sent) -> None:
    answer = answered(sent.model.invoke("hello"))
    reply = wire.reply(answer, as_generated=False)
    assert reply.complete
    assert reply.messages == ({"content": "ok", "role": "assistant"},)
    assert reply.counts == {"usage": USAGE, "model": "served"}
    assert usage_of(reply.counts).cached_tokens == 16


def test_a_streamed_reply_is_the_same(sent: Sent) -> None:
    whole = wire.reply(answered(sent.model.invoke("hello")), as_generated=False)
    sent.stream = chunks("stop", USAGE)
    try:
        first, *rest = sent.model.stream("hello", stream_usage=True)
    finally:
        sent.stream = []
    added = answered(sum(rest, first))
    assert wire.reply(added, as_generated=False) == whole


def test_a_stream_that_broke_off_is_no_whole_reply(sent: Sent) -> None:
    sent.stream = chunks(None)
    try:
        first, *rest = sent.model.stream("hello")
    finally:
        sent.stream = []
    assert not wire.reply(answered(sum(rest, first)), as_generated=False).complete


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"finish_reason": "length", "model_provider": "openai"},
        {"model_provider": "openai", "status": "completed"},
        {"model_provider": "anthropic"},
    ],
)
def test_a_model_that_says_no_end_has_ended(told: dict[str, Any]) -> None:
    assert wire.reply(AIMessage("ok", response_metadata=told), as_generated=False).complete


def test_what_was_not_counted_stays_unknown(sent: Sent) -> None:
    plain = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    for details in (None, {}, {"cached_tokens": None}, {"audio_tokens": 0}):
        sent.answer = {"usage": {**plain, "prompt_tokens_details": details}}
        counts = wire.reply(answered(sent.model.invoke("hello")), as_generated=False).counts
        assert counts["usage"] == plain
        assert usage_of(counts).cached_tokens is None
    sent.answer = {"usage": {**plain, "prompt_tokens_details": {"cached_tokens": 0}}}
    counts = wire.reply(answered(sent.model.invoke("hello")), as_generated=False).counts
    assert usage_of(counts).cached_tokens == 0
    sent.answer = {"usage": {"completion_tokens": 5}}
    counts = wire.reply(answered(sent.model.invoke("hello")), as_generated=False).counts
    assert usage_of(counts).prompt_tokens is None
    sent.answer = {}
    assert wire.reply(AIMessage("ok"), as_generated=False).counts == {}


def test_a_reply_has_what_was_generated_where_it_goes_back() -> None:
    answer = generated('{"a":1}', reasoning_content="hm").model_copy(
        update={"response_metadata": {"timings": {"prompt_n": 3}, "finish_reason": "stop"}}
    )
    reply = wire.reply(answer, as_generated=True)
    assert reply.messages == (wire.as_generated(answer, wire.message(answer)),)
    assert reply.messages[0]["reasoning_content"] == "hm"
    assert reply.counts["timings"] == {"prompt_n": 3}
    assert wire.reply(answer, as_generated=False).messages == (wire.message(answer),)
