"""What of a request is read, and is what cannot be read doubted with a reason?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent import Bypassed
from kvagent.chat import ChatRequest, Doubt
from tests.wire import Wire, compact, first_call, say


def parse(body: Any) -> ChatRequest:
    return ChatRequest.parse(compact(body).encode())


@pytest.mark.parametrize(
    ("roles", "head"),
    [
        (["user"], 0),
        (["system"], 1),
        (["system", "user"], 1),
        (["developer", "user", "system"], 1),
        (["system", "developer", "system", "user", "assistant"], 3),
        (["assistant", "user"], 0),
        (["user", "system"], 0),
    ],
)
def test_the_head_is_what_leads(roles: list[str], head: int) -> None:
    request = parse({"messages": [say(role, "x") for role in roles]})
    assert request.head_size == head
    assert [m["role"] for m in request.fresh] == roles[head:]
    assert [m["role"] for m in request.messages] == roles


@pytest.mark.parametrize(("model", "name"), [("gpt", "gpt"), (None, ""), (7, ""), ("", "")])
def test_a_model_is_a_name_or_none(model: Any, name: str) -> None:
    assert parse({"messages": [say("user", "x")], "model": model}).model == name


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools(tools: Any) -> None:
    assert list(parse({"messages": [say("user", "x")], "tools": tools}).tools) == []


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"\xff\xfe", "the body is not JSON"),
        (b'{"messages":[{"role":"user","content":NaN}]}', "the body is not JSON"),
        (b'{"messages":[{"role":"user","content":"\\ud800"}]}', "the body is not JSON"),
        (b'{"messages":' + b"[" * 2_000 + b"]" * 2_000 + b"}", "the body is not JSON"),
        (b"[]", "the body is a JSON list, not an object"),
        (b"null", "the body is a JSON NoneType, not an object"),
        (b"{}", "the body has no list of messages"),
        (b'{"messages":null}', "the body has no list of messages"),
        (b'{"messages":[]}', "the body has no list of messages"),
        (b'{"messages":{}}', "the body has no list of messages"),
        (b'{"messages":["x"]}', "message 0 is not an object with a role"),
        (
            b'{"messages":[{"role":"user"},{"content":"x"}]}',
            "message 1 is not an object with a role",
        ),
        (b'{"messages":[{"role":7}]}', "message 0 is not an object with a role"),
        (
            b'{"messages":[{"role":"user","tool_calls":"x"}]}',
            "tool_calls of message 0 is not a list",
        ),
        (
            b'{"messages":[{"role":"user","tool_calls":[7]}]}',
            "tool_calls of message 0 is not a list",
        ),
        (b'{"messages":[{"role":"user"}],"tools":{}}', "tools is not a list of objects"),
        (b'{"messages":[{"role":"user"}],"tools":["x"]}', "tools is not a list of objects"),
    ],
)
def test_what_cannot_be_read_is_doubted_with_a_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(Doubt, match=reason):
        ChatRequest.parse(raw)
    wire = Wire()
    assert first_call(wire.engine.turn(raw)).body is raw
    (event,) = wire.of(Bypassed)
    assert event.reason.startswith(reason)
    assert event.error is None


def test_a_continued_request_has_all_messages_and_reads_the_new_ones() -> None:
    old = [say("system", "s"), say("user", "a")]
    new = [say("assistant", "b"), say("user", "c")]
    raw = compact({"messages": [*old, *new]}).encode()
    request = ChatRequest.resume(raw, compact(new).encode(), 2, {"model": "m"}, 1)
    assert list(request.fresh) == new
    assert list(request.messages) == [*old, *new]
    assert (request.known, request.head_size, request.model) == (2, 1, "m")
    with pytest.raises(Doubt, match="message 2 is not an object"):
        ChatRequest.resume(raw, b"[7]", 2, {}, 1)
    with pytest.raises(Doubt, match="not JSON"):
        ChatRequest.resume(raw, b"[{]", 2, {}, 1)
