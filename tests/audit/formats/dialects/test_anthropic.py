"""Are requests to Anthropic's API told in OpenAI's form without loss?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.transcript import Reported
from tests.audit.formats.files import ANSWER, CALL, RESULT, SESSION, SYSTEM, TOOL, USER, requests

BLOCKS: list[dict[str, Any]] = [
    {"role": "user", "content": USER["content"]},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "call_1", "name": "ls", "input": {}}],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "call_1",
                "content": [{"type": "text", "text": "a.py"}],
            }
        ],
    },
]
BODY = {
    "model": "claude",
    "system": [{"type": "text", "text": SYSTEM["content"], "cache_control": {"type": "ephemeral"}}],
    "messages": BLOCKS,
    "tools": [{"name": "ls", "description": "Lists files.", "input_schema": {"type": "object"}}],
    "max_tokens": 10,
}
USAGE = {
    "input_tokens": 3,
    "cache_read_input_tokens": 90,
    "cache_creation_input_tokens": 7,
    "output_tokens": 5,
}
REPLY = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": ANSWER["content"]}],
    "usage": USAGE,
}
EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {**REPLY, "content": [], "usage": {**USAGE, "output_tokens": 1}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One: "}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a.py."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
STREAM = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS)


@pytest.mark.parametrize("reply", [REPLY, STREAM, EVENTS])
def test_a_request_and_what_came_back(tmp_path: Path, reply: Any) -> None:
    (request,) = requests(tmp_path, {"request": BODY, "response": reply})
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]
    assert request.options == {"model": "claude", "max_tokens": 10}
    assert request.replies == [ANSWER]
    assert request.reported == Reported(100, 90, 5, 7)


def test_a_streamed_call(tmp_path: Path) -> None:
    events = [
        EVENTS[0],
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"thinking": "Look."}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "call_1", "name": "ls", "input": {}},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"a"'}},
        {"type": "content_block_delta", "index": 1, "delta": {"partial_json": ": 1}"}},
    ]
    (request,) = requests(tmp_path, {"request": BODY, "response": events})
    (reply,) = request.replies
    assert reply["reasoning_content"] == "Look."
    assert reply["tool_calls"][0]["function"] == {"name": "ls", "arguments": '{"a": 1}'}


def test_what_the_user_says_comes_behind_the_results(tmp_path: Path) -> None:
    message = {
        "role": "user",
        "content": [
            *BLOCKS[2]["content"],
            {"type": "tool_result", "tool_use_id": "call_2", "content": "b", "is_error": True},
            {"type": "text", "text": "Go on."},
            {"type": "image", "source": {"media_type": "image/png", "data": "AAAA"}},
        ],
    }
    request, _ = requests(tmp_path, *[{"messages": [*BLOCKS[:2], message], "system": ""}] * 2)
    assert request.messages[2:] == [
        RESULT,
        {"role": "tool", "tool_call_id": "call_2", "content": "b"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Go on."},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
    ]


def test_a_session_is_known_by_its_blocks(tmp_path: Path) -> None:
    said = {"role": "assistant", "content": [{"type": "text", "text": ANSWER["content"]}]}
    first, second = requests(tmp_path, [*BLOCKS, said])
    assert list(first.messages) == [USER]
    assert dict(first.replies[0]) == CALL
    assert list(second.messages) == [USER, CALL, RESULT]
    assert dict(second.replies[0]) == ANSWER
