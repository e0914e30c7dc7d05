"""Are requests to the Responses API told in OpenAI's chat form without loss?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import ANSWER, CALL, RESULT, SESSION, SYSTEM, TOOL, USER, requests

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_text", "text": USER["content"]}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "secret"},
    {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
]
BODY = {
    "model": "gpt",
    "instructions": SYSTEM["content"],
    "input": ITEMS,
    "tools": [{"type": "function", **TOOL["function"]}],  # type: ignore[dict-item]
}
REPLY = {
    "object": "response",
    "created_at": 1_700_000_000,
    "output": [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER["content"]}],
        }
    ],
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 30},
        "output_tokens": 5,
    },
}
STREAM = "".join(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    for event in (
        {"type": "response.created", "response": {"object": "response", "output": []}},
        {"type": "response.output_text.delta", "delta": "One"},
        {"type": "response.completed", "response": REPLY},
    )
)


@pytest.mark.parametrize("reply", [REPLY, STREAM])
def test_a_request_and_what_came_back(tmp_path: Path, reply: Any) -> None:
    (request,) = requests(tmp_path, {"request": BODY, "response": reply})
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]
    assert request.replies == [ANSWER]
    assert request.reported == Reported(100, 64, 5, 30)
    assert request.time_s == 1_700_000_000
    assert request.complete == {"system", "tools"}


def test_a_question_may_be_a_text(tmp_path: Path) -> None:
    body = {"model": "gpt", "input": "Which files are there?"}
    (request,) = requests(tmp_path, {"request": body, "response": REPLY})
    assert request.messages == [USER]


def test_what_the_server_holds_is_not_in_the_request(tmp_path: Path) -> None:
    body = {**BODY, "previous_response_id": "resp_1"}
    (request,) = requests(tmp_path, {"request": body, "response": REPLY})
    assert request.complete == frozenset()


def test_items_of_one_answer_are_one_message(tmp_path: Path) -> None:
    made = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look."}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
        },
        *[{**ITEMS[2], "call_id": each} for each in ("a", "b")],
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
    ]
    results = [
        {
            "type": "custom_tool_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": "x"}],
        }
    ]
    request, _ = requests(tmp_path, *[{**BODY, "input": [ITEMS[0], *made, *results]}] * 2)
    _, _, said, result = request.messages
    assert said["content"] == "I look."
    assert said["reasoning_content"] == "Look."
    assert [call["id"] for call in said["tool_calls"]] == ["a", "b", "c"]
    assert json.loads(said["tool_calls"][2]["function"]["arguments"]) == {"input": "*** Begin"}
    assert result == {"role": "tool", "tool_call_id": "c", "content": "x"}


def test_a_session_of_items(tmp_path: Path) -> None:
    first, second = requests(tmp_path, {"input": [*ITEMS, *REPLY["output"]]})  # type: ignore[misc]
    assert (list(first.messages), dict(first.replies[0])) == ([USER], CALL)
    assert list(second.messages) == [USER, CALL, RESULT]
