"""Are the calls in a trace of Langfuse those that were made, whatever framework was traced?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import (
    ANSWER,
    CALL,
    RESULT,
    SESSION,
    SYSTEM,
    TOOL,
    USER,
    items,
    requests,
    unreadable,
)

Json = dict[str, Any]


def call(input: Any, output: Any = ANSWER, at: int = 0, **more: Any) -> Json:
    return {
        "id": f"o{at}",
        "traceId": "t",
        "type": "GENERATION",
        "startTime": f"2026-01-01T12:00:{at:02}Z",
        "input": input,
        "output": output,
        "model": "m",
        "usageDetails": {"input": 100, "output": 5, "total": 105, "input_cached_tokens": 64},
        **more,
    }


def export(*observations: Any, session: str | None = None) -> Json:
    trace = {"id": "t", "sessionId": session}
    return {
        "trace": trace,
        "observations": [{"type": "SPAN", "traceId": "t", "input": 1}, *observations],
    }


PARTS = [
    {"role": "system", "parts": [{"type": "text", "content": SYSTEM["content"]}]},
    {"role": "user", "parts": [{"type": "text", "content": USER["content"]}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "call_1", "name": "ls", "arguments": {}}],
    },
    {"role": "user", "parts": [{"type": "tool_call_response", "id": "call_1", "result": "a.py"}]},
]
LANGCHAIN: list[Json] = [
    {"type": "system", "content": SYSTEM["content"]},
    {"type": "human", "content": USER["content"]},
    {"type": "ai", "content": None, "tool_calls": [{"id": "call_1", "name": "ls", "args": {}}]},
    {"type": "tool", "content": "a.py", "tool_call_id": "call_1"},
]


@pytest.mark.parametrize(
    "input",
    [
        SESSION[:4],
        json.dumps(SESSION[:4]),
        {"messages": SESSION[:4]},
        [SESSION[:4]],
        PARTS,
        json.dumps(PARTS),
        LANGCHAIN,
    ],
)
def test_a_call_in_any_form(tmp_path: Path, input: Any) -> None:
    (request,) = requests(tmp_path, export(call(input)))
    assert request.messages == SESSION[:4]
    assert [dict(reply) for reply in request.replies] == [ANSWER]
    assert request.reported == Reported(100, 64, 5)
    assert (request.conversation, request.complete) == ("t", frozenset({"system"}))
    assert request.place.path == ".observations[1].input"


def test_an_export_has_calls_in_no_order(tmp_path: Path) -> None:
    found = requests(
        tmp_path, export(call(SESSION[:4], at=7), call(SESSION[:2], at=3), session="s")
    )
    assert [len(each.messages) for each in found] == [2, 4]
    assert [each.conversation for each in found] == ["s", "s"]


def test_tools_that_stand_among_messages(tmp_path: Path) -> None:
    (request,) = requests(tmp_path, export(call([*SESSION[:4], {"role": "tool", "content": TOOL}])))
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]


def test_calls_that_stand_beside_the_message(tmp_path: Path) -> None:
    said = {
        "role": "assistant",
        "content": "",
        "additional_kwargs": {"tool_calls": CALL["tool_calls"]},
    }
    (request,) = requests(tmp_path, export(call([USER, said, RESULT], output=json.dumps(said))))
    assert request.messages[1] == {**CALL, "content": ""}
    assert request.replies[0]["tool_calls"] == CALL["tool_calls"]


def test_the_responses_api_tells_with_its_answer_what_it_was_asked_with(tmp_path: Path) -> None:
    asked = [
        USER,
        {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
    ]
    text = {"type": "output_text", "text": ANSWER["content"]}
    answer = {
        "object": "response",
        "instructions": SYSTEM["content"],
        "tools": [{"type": "function", **TOOL["function"]}],  # type: ignore[dict-item]
        "output": [{"type": "message", "role": "assistant", "content": [text]}],
    }
    (request,) = requests(tmp_path, export(call(json.dumps(asked), json.dumps(answer))))
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]
    assert request.replies == [ANSWER]


def test_tools_among_the_attributes(tmp_path: Path) -> None:
    schema = TOOL["function"]
    assert isinstance(schema, dict)
    bare = {
        "name": "ls",
        "description": "Lists files.",
        "parameters_json_schema": schema["parameters"],
    }
    attributes = {"model_request_parameters": {"function_tools": [bare]}}
    (request,) = requests(tmp_path, export(call(PARTS, metadata={"attributes": attributes})))
    assert request.tools == [TOOL]


def test_an_error(tmp_path: Path) -> None:
    (request,) = requests(tmp_path, export(call([USER], level="ERROR", statusMessage="too long")))
    assert (request.error, request.replies) == ("too long", ())


def test_calls_that_do_not_say_what_they_sent(tmp_path: Path) -> None:
    silent = call(None, usageDetails={})  # the end of a call, told apart from its beginning
    found = items(tmp_path, export(call({"content": "role"}), call(None), silent, call([USER])))
    assert len(unreadable(found)) == 2
    assert len(found) == 3


def test_other_exports(tmp_path: Path) -> None:
    calls = [call(SESSION[:2], at=1), call(SESSION[:4], at=2)]
    exports: list[list[Any]] = [
        [{"id": "t", "observations": calls}],
        [{"trace": {"id": "t", "observations": calls}}],
        [{"data": calls, "meta": {"page": 1}}],
        [calls],
        calls,
    ]
    for export in exports:
        assert [len(each.messages) for each in requests(tmp_path, *export)] == [2, 4]
