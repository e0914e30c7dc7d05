"""What of a reply is read, and is one that cannot be read incomplete?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent import Bypassed
from kvagent.chat import ChatReply, calls_of
from tests.wire import Wire, call, compact, result, say


def test_a_reply_has_its_messages_and_counts() -> None:
    body = {
        "id": "x",
        "model": "m",
        "choices": [{"index": n, "message": say("assistant", str(n))} for n in range(2)],
        "usage": {"prompt_tokens": 7},
        "timings": {"cache_n": 5},
    }
    reply = ChatReply.parse(compact(body).encode())
    assert [message["content"] for message in reply.messages] == ["0", "1"]
    assert reply.counts == {key: body[key] for key in ("usage", "timings", "model")}
    assert reply.complete
    assert reply.error is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"choices":null}',
        b'{"choices":[{"message":null},7]}',
        b'{"choices":{},"usage":null}',
    ],
)
def test_what_cannot_be_read_is_an_incomplete_reply(body: bytes) -> None:
    reply = ChatReply.parse(body)
    assert (reply.messages, reply.counts, reply.complete) == ((), {}, False)


def test_an_error_in_a_good_answer_is_an_error() -> None:
    body = {"error": {"message": "no"}, "choices": [{"message": say("assistant", "x")}]}
    reply = ChatReply.parse(compact(body).encode())
    assert reply.error == {"message": "no"}
    assert not reply.complete


@pytest.mark.parametrize("calls", [None, "x", 7, {}, [], ["x", None, 7], [[]]])
def test_tool_calls_that_are_none_are_left_out(calls: Any) -> None:
    assert calls_of(say("assistant", "x", tool_calls=calls)) == []
    assert calls_of({"role": "assistant"}) == []


def test_a_reply_with_odd_tool_calls_disturbs_nothing() -> None:
    wire = Wire()
    history = [say("system", "Today is Monday."), say("user", "Go.")]
    for calls in ("x", [7], {"id": "a"}):
        wire.send(history, {"role": "assistant", "content": None, "tool_calls": calls})
        wire.send([*history, call("a"), result("a", "r")], say("assistant", "ok"))
    assert not wire.of(Bypassed)
