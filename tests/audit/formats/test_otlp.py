"""Are the calls of a model found among spans, whichever convention they follow?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import (
    ANSWER,
    CALL,
    SESSION,
    SYSTEM,
    TOOL,
    USER,
    items,
    requests,
    unreadable,
)
from tests.audit.formats.test_langfuse import PARTS

Json = dict[str, Any]
SCHEMA: Any = TOOL["function"]


def value(it: Any) -> Json:
    """A value as OTLP writes it."""
    if isinstance(it, bool):
        return {"boolValue": it}
    if isinstance(it, int):
        return {"intValue": str(it)}
    if isinstance(it, str):
        return {"stringValue": it}
    if isinstance(it, list):
        return {"arrayValue": {"values": [value(each) for each in it]}}
    if isinstance(it, dict):
        return {"kvlistValue": {"values": pairs(it)}}
    return {}


def pairs(attributes: Json) -> list[Json]:
    return [{"key": key, "value": value(each)} for key, each in attributes.items()]


def span(attributes: Json, events: list[Json] | None = None, **more: Any) -> Json:
    return {
        "traceId": "t",
        "spanId": "s",
        "startTimeUnixNano": "1700000000500000000",
        "attributes": pairs(attributes),
        "events": events or [],
        **more,
    }


def batch(*spans: Json, logs: list[Json] | None = None) -> Json:
    made: Json = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": list(spans)}]}]}
    if logs:
        made["resourceLogs"] = [{"scopeLogs": [{"logRecords": logs}]}]
    return made


COUNTS = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 5}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **COUNTS}
MESSAGES = {
    **CHAT,
    "gen_ai.input.messages": json.dumps(PARTS[1:]),
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": SYSTEM["content"]}]),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER["content"]}]}]
    ),
    "gen_ai.tool.definitions": json.dumps([{"type": "function", **SCHEMA}]),
    "gen_ai.usage.cache_read.input_tokens": 64,
    "gen_ai.conversation.id": "c",
}
FIELDS = {
    "traceloop.span.kind": "LLM",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": SYSTEM["content"],
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": USER["content"],
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "call_1",
    "gen_ai.prompt.2.tool_calls.0.name": "ls",
    "gen_ai.prompt.2.tool_calls.0.arguments": "{}",
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.content": "a.py",
    "gen_ai.prompt.3.tool_call_id": "call_1",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": ANSWER["content"],
    "llm.request.functions.0.name": "ls",
    "llm.request.functions.0.description": "Lists files.",
    "llm.request.functions.0.parameters": json.dumps(SCHEMA["parameters"]),
    "gen_ai.usage.prompt_tokens": 100,
    "gen_ai.usage.completion_tokens": 5,
    "gen_ai.usage.cache_read_input_tokens": 64,
    "session.id": "c",
}
INFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": SYSTEM["content"],
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.text": USER["content"],
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "call_1",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "ls",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": "{}",
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.content": "a.py",
    "llm.input_messages.3.message.tool_call_id": "call_1",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": ANSWER["content"],
    "llm.tools.0.tool.json_schema": json.dumps(TOOL),
    "llm.token_count.prompt": 100,
    "llm.token_count.completion": 5,
    "llm.token_count.prompt_details.cache_read": 64,
    "session.id": "c",
}
VERCEL = {
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.prompt.messages": json.dumps(
        [
            SYSTEM,
            {"role": "user", "content": [{"type": "text", "text": USER["content"]}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", "toolCallId": "call_1", "toolName": "ls", "input": {}}
                ],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "call_1",
                        "toolName": "ls",
                        "output": {"type": "text", "value": "a.py"},
                    }
                ],
            },
        ]
    ),
    "ai.prompt.tools": [
        json.dumps({"name": "ls", "description": "Lists files.", "inputSchema": {"type": "object"}})
    ],
    "ai.response.text": ANSWER["content"],
    "ai.usage.promptTokens": 100,
    "ai.usage.completionTokens": 5,
    "ai.usage.cachedInputTokens": 64,
    "session.id": "c",
}


def texts(messages: Any) -> list[Any]:
    return [
        (
            each["role"],
            each.get("content") or None,
            each.get("tool_calls"),
            each.get("tool_call_id"),
        )
        for each in messages
    ]


@pytest.mark.parametrize("attributes", [MESSAGES, FIELDS, INFERENCE, VERCEL])
def test_messages_among_the_attributes(tmp_path: Path, attributes: Json) -> None:
    agent = span({"gen_ai.operation.name": "invoke_agent", **COUNTS})
    (request,) = requests(tmp_path, batch(agent, span(attributes)))
    found = texts(request.messages)
    if attributes is INFERENCE or attributes is VERCEL:
        assert found[1][1] == [{"type": "text", "text": USER["content"]}]
        found[1] = ("user", USER["content"], None, None)
    assert found == texts(SESSION[:4])
    assert texts(request.replies) == texts([ANSWER])
    assert request.tools == [TOOL]
    assert request.reported == Reported(100, 64, 5)
    assert (request.conversation, request.time_s) == ("c", 1_700_000_000.5)
    assert request.complete == {"system", "tools"}


EVENTS: list[tuple[str, Json]] = [
    ("gen_ai.system.message", {"content": SYSTEM["content"]}),
    ("gen_ai.user.message", {"content": USER["content"]}),
    ("gen_ai.assistant.message", {"tool_calls": CALL["tool_calls"]}),
    ("gen_ai.tool.message", {"content": "a.py", "id": "call_1"}),
    ("gen_ai.choice", {"index": 0, "message": {"content": ANSWER["content"]}}),
]


def in_span() -> Json:
    events = [
        {
            "name": name,
            "attributes": pairs(
                {k: v if isinstance(v, str) else json.dumps(v) for k, v in body.items()}
            ),
        }
        for name, body in EVENTS
    ]
    return batch(span(CHAT, events))


def in_logs() -> Json:
    logs = [
        {
            "spanId": "s",
            "traceId": "t",
            "body": value(body),
            "attributes": pairs({"event.name": name}),
        }
        for name, body in EVENTS
    ]
    return batch(span(CHAT), logs=logs)


def in_one_attribute() -> Json:
    listed = [{"event.name": name, **body} for name, body in EVENTS]
    return batch(span({**CHAT, "events": json.dumps(listed)}))


@pytest.mark.parametrize("made", [in_span, in_logs, in_one_attribute])
def test_messages_as_events(tmp_path: Path, made: Any) -> None:
    (request,) = requests(tmp_path, made())
    assert texts(request.messages) == texts(SESSION[:4])
    assert texts(request.replies) == texts([ANSWER])
    assert request.reported == Reported(100, None, 5)
    assert request.conversation == "t"


def test_an_event_with_all_of_it(tmp_path: Path) -> None:
    attributes = pairs({**MESSAGES, "event.name": "gen_ai.client.inference.operation.details"})
    logs = [{"spanId": "other", "attributes": attributes, "timeUnixNano": "1700000000500000000"}]
    (request,) = requests(tmp_path, batch(logs=logs))
    assert texts(request.messages) == texts(SESSION[:4])
    older = [
        {
            "name": "gen_ai.content.prompt",
            "attributes": pairs({"gen_ai.prompt": json.dumps(SESSION[:4])}),
        },
        {
            "name": "gen_ai.content.completion",
            "attributes": pairs({"gen_ai.completion": json.dumps([ANSWER])}),
        },
    ]
    (request,) = requests(tmp_path, batch(span(CHAT, older)))
    assert texts(request.messages) == texts(SESSION[:4])
    assert texts(request.replies) == texts([ANSWER])


def test_spans_as_an_sdk_prints_them(tmp_path: Path) -> None:
    printed = {
        "name": "chat m",
        "context": {"trace_id": "0x1", "span_id": "0x2"},
        "start_time": "2026-01-01T12:00:00Z",
        "attributes": FIELDS,
        "status": {"status_code": "UNSET"},
    }
    for values in ([printed, printed], [[printed, printed]]):
        found = requests(tmp_path, *values)
        assert len(found) == 2
        assert texts(found[0].messages) == texts(SESSION[:4])
        assert found[0].time_s == 1_767_268_800.0


def test_calls_within_a_batch_come_in_their_order(tmp_path: Path) -> None:
    late = span({**FIELDS, "session.id": "late"}, startTimeUnixNano="1800000000000000000")
    found = requests(tmp_path, batch(late, span(FIELDS)), batch(span(FIELDS)))
    assert [each.conversation for each in found] == ["c", "late", "c"]
    assert [each.place.line for each in found] == [1, 1, 2]


def test_a_failure(tmp_path: Path) -> None:
    (request,) = requests(tmp_path, batch(span(FIELDS, status={"code": 2, "message": "too long"})))
    assert (request.error, request.replies) == ("too long", ())


def test_calls_whose_messages_were_not_recorded(tmp_path: Path) -> None:
    found = items(tmp_path, batch(span(CHAT), span(FIELDS)))
    (why,) = unreadable(found)
    assert "recording was off" in why
    assert len(found) == 2


def test_a_call_that_is_traced_twice_is_told_once(tmp_path: Path) -> None:
    outer = span({**FIELDS, "session.id": "outer"}, spanId="a")
    inner = span({**FIELDS, "session.id": "inner"}, spanId="b", parentSpanId="a")
    (request,) = requests(tmp_path, batch(inner, outer))
    assert request.conversation == "inner"
