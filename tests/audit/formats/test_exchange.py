"""Are the requests of a log found in its records, with what came back?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.formats import read
from kvagent.audit.transcript import Reported, Request
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
    write,
)

BODY = {"model": "m", "messages": SESSION[:4], "tools": [TOOL], "temperature": 0}
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 60},
}
REPLY = {"choices": [{"message": ANSWER}], "usage": USAGE, "created": 1_700_000_000}
COUNTS = Reported(100, 60, 7)
STREAM = "".join(
    f"data: {json.dumps(chunk)}\n\n"
    for chunk in (
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "One: "}}]},
        {"choices": [{"index": 0, "delta": {"content": "a.py."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": USAGE},
    )
)


@pytest.mark.parametrize(
    "record",
    [
        {"body": BODY, "response": REPLY},
        {"request": BODY, "response": REPLY},
        {"request": {"body": BODY}, "response": {"body": REPLY, "status": 200}},
        {"request": json.dumps(BODY), "response": json.dumps(REPLY)},
        {**BODY, "response": REPLY},
        {"body": BODY, "response": STREAM},
        {"body": BODY, "response": {"body": STREAM}},
    ],
)
def test_a_request_and_what_came_back(tmp_path: Path, record: dict[str, Any]) -> None:
    (request,) = requests(tmp_path, record)
    assert request.messages == SESSION[:4]
    assert request.tools == [TOOL]
    assert request.options["temperature"] == 0
    assert [dict(reply) for reply in request.replies] == [ANSWER]
    assert request.reported == COUNTS
    assert request.complete == {"system", "tools"}
    assert not request.unrolled


def test_a_log_without_answers(tmp_path: Path) -> None:
    bodies = [{**BODY, "messages": SESSION[:length]} for length in (2, 4)]
    for log in (bodies, [{"body": body, "at": at} for at, body in enumerate(bodies)]):
        first, second = requests(tmp_path, *log)
        assert (first.messages, second.messages) == (SESSION[:2], SESSION[:4])
        assert (first.place.line, second.place.line) == (1, 2)
        assert first.reported == Reported()
        assert not first.replies


def test_nothing_is_copied(tmp_path: Path) -> None:
    path = write(tmp_path, BODY, BODY)
    for request in read(path):
        assert isinstance(request, Request)
        assert isinstance(request.messages, list)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "value", [SESSION, {"messages": SESSION}, {"messages": SESSION, "tools": [TOOL]}, [SESSION]]
)
def test_a_session_is_unrolled(tmp_path: Path, value: Any, indent: int | None) -> None:
    found = list(read(write(tmp_path, value, indent=indent)))
    first, second = found
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert (list(first.messages), list(second.messages)) == (SESSION[:2], SESSION[:4])
    assert (first.replies, second.replies) == ((CALL,), (ANSWER,))
    assert first.unrolled
    assert first.place.path in ("", "[0]", ".messages")
    has_tools = isinstance(value, dict) and "tools" in value
    assert first.complete == ({"system", "tools"} if has_tools else {"system"})


def test_sessions_a_line(tmp_path: Path) -> None:
    found = requests(tmp_path, {"messages": SESSION}, {"messages": SESSION})
    assert [request.place.line for request in found] == [1, 1, 2, 2]


def test_a_single_request_is_the_last_of_its_session(tmp_path: Path) -> None:
    first, last = requests(tmp_path, BODY)
    assert (first.unrolled, last.unrolled) == (True, False)
    assert last.messages == SESSION[:4]


def test_a_list_of_records_is_a_log(tmp_path: Path) -> None:
    first, second = requests(tmp_path, [{"body": BODY}, {"body": BODY}])
    assert str(first.place).endswith(" [0].body.messages")
    assert str(second.place).endswith(" [1].body.messages")


@pytest.mark.parametrize(
    ("more", "conversation"),
    [
        ({"session_id": "s"}, "s"),
        ({"conversation_id": 7}, "7"),
        ({"metadata": {"thread_id": "t"}}, "t"),
        ({}, None),
    ],
)
def test_what_stands_around_a_request(
    tmp_path: Path, more: dict[str, Any], conversation: str | None
) -> None:
    record = {"body": BODY, "timestamp": "2026-01-01T12:00:00Z", **more}
    request, _ = requests(tmp_path, record, record)
    assert request.conversation == conversation
    assert request.time_s == 1_767_268_800.0


def test_a_refusal(tmp_path: Path) -> None:
    refusal = {"error": {"message": "maximum context length is 8192 tokens", "code": 400}}
    (request,) = requests(tmp_path, {"request": BODY, "response": refusal})
    assert request.error == "maximum context length is 8192 tokens"
    assert not request.replies


def test_records_that_are_no_requests_are_named(tmp_path: Path) -> None:
    bad: list[Any] = [
        {},
        {"a": 1, "b": 2},
        7,
        {"messages": [{"role": "user"}, {"content": "x"}]},
        {"messages": [USER, {"role": "assistant", "tool_calls": "ls"}]},
        {"messages": [USER], "tools": "all"},
    ]
    found = items(tmp_path, BODY, *bad, BODY)
    whys = unreadable(found)
    assert len(whys) == len(bad)
    assert len(found) == len(bad) + 2
    assert "under its keys a, b" in whys[1]
    assert whys[3].endswith(":5 has a message 1 without a role")


def test_functions_are_tools(tmp_path: Path) -> None:
    asked = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "ls", "arguments": "{}"},
    }
    messages = [SYSTEM, USER, asked, {"role": "function", "name": "ls", "content": "a.py"}]
    schema = TOOL["function"]
    reply = {"choices": [{"message": asked}]}
    (request,) = requests(
        tmp_path, {"request": {"messages": messages, "functions": [schema]}, "response": reply}
    )
    assert request.tools == [TOOL]
    assert request.messages[:2] == [SYSTEM, USER]
    call = {**CALL, "tool_calls": [{**CALL["tool_calls"][0], "id": "call-of-message-2"}]}  # type: ignore[index, dict-item]
    assert request.messages[2] == call
    assert request.messages[3] == {**RESULT, "name": "ls", "tool_call_id": "call-of-message-2"}
    assert request.replies[0]["tool_calls"][0]["function"]["name"] == "ls"


def test_a_longer_log_says_the_same_of_its_beginning(tmp_path: Path) -> None:
    asked = {"role": "assistant", "function_call": {"name": "ls", "arguments": "{}"}}
    told = {"role": "function", "name": "ls", "content": "a.py"}
    messages = [USER, asked, told, asked, told]
    short, long = requests(tmp_path, {"messages": messages[:3]}, {"messages": messages})
    assert long.messages[:3] == short.messages
    assert long.messages[4]["tool_call_id"] == "call-of-message-3"


def test_what_gateways_say_of_caches(tmp_path: Path) -> None:
    said = {
        "prompt_tokens": 100,
        "completion_tokens": 1,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
    }
    (request,) = requests(tmp_path, {"body": BODY, "response": {**REPLY, "usage": said}})
    assert request.reported == Reported(100, 60, 1, 30)
    beside = requests(tmp_path, {"body": BODY, "usage": USAGE}, {"body": BODY, "usage": USAGE})
    assert beside[0].reported == COUNTS
