"""Does a stream become the message that was generated, if it ended well?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent.chat import ChatReply
from tests.wire import Message, Wire, call, compact, result, say


def chunk(
    delta: Message | None = None, finish: str | None = None, index: int = 0, **rest: Any
) -> str:
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish}]
    return f"data: {compact({'choices': choices, **rest})}\n\n"


def stream(*chunks: str, end: str = "data: [DONE]\n\n") -> ChatReply:
    return ChatReply.parse_stream("".join((*chunks, end)).encode())


def test_a_stream_becomes_the_message_that_was_generated() -> None:
    reply = stream(
        ": keep-alive\n\n",
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning_content": "Because "}),
        chunk({"reasoning_content": "so."}),
        chunk({"content": "Zür"}),
        "event: message\nid: 7\n" + chunk({"content": "ich 🙂"}),
        chunk({}, "stop"),
        chunk(usage={"prompt_tokens": 9}, model="m"),
    )
    assert reply.messages == (
        {"role": "assistant", "content": "Zürich 🙂", "reasoning_content": "Because so."},
    )
    assert reply.counts == {"usage": {"prompt_tokens": 9}, "model": "m"}
    assert reply.complete


def made(index: int | None, **function: Any) -> Message:
    part: Message = {"function": function}
    if index is not None:
        part["index"] = index
    return part


def test_parallel_calls_are_put_together_by_their_index() -> None:
    reply = stream(
        chunk(
            {"tool_calls": [{**made(0, name="read", arguments=""), "id": "a", "type": "function"}]}
        ),
        chunk({"tool_calls": [made(0, arguments='{"x"')]}),
        chunk({"tool_calls": [{**made(1, name="list", arguments="{"), "id": "b"}]}),
        chunk({"tool_calls": [made(0, arguments=": 1}"), made(1, arguments="}")]}),
        chunk({}, "tool_calls"),
    )
    assert reply.messages[0]["content"] is None
    assert reply.messages[0]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "list", "arguments": "{}"}},
    ]


def test_calls_without_an_index_are_whole() -> None:
    reply = stream(
        chunk({"tool_calls": [{**made(None, name="f", arguments="{}"), "id": "a"}]}),
        chunk({"tool_calls": [{**made(None, name="g", arguments="{}"), "id": "b"}, 7]}),
        chunk({}, "tool_calls"),
    )
    assert [each["id"] for each in reply.messages[0]["tool_calls"]] == ["a", "b"]


def test_choices_are_kept_apart() -> None:
    reply = stream(
        chunk({"content": "a"}, index=0),
        chunk({"content": "b"}, index=1),
        chunk({"content": "b"}, "stop", index=1),
        chunk({"content": "a"}, "stop", index=0),
    )
    assert [message["content"] for message in reply.messages] == ["aa", "bb"]
    assert reply.complete


def test_borders_of_events_may_be_windows_ones() -> None:
    text = chunk({"content": "a"}) + chunk({}, "stop") + "data:[DONE]\n\n"
    reply = ChatReply.parse_stream(text.replace("\n", "\r\n").encode())
    assert reply.messages[0]["content"] == "a"
    assert reply.complete


@pytest.mark.parametrize(
    ("chunks", "end"),
    [
        ([chunk({"content": "half"})], ""),
        ([chunk({"content": "half"})], "data: [DONE]\n\n"),
        ([], "data: [DONE]\n\n"),
        ([chunk({"content": "a"}, "stop"), chunk({"content": "b"}, index=1)], "data: [DONE]\n\n"),
        ([chunk({"content": "a"}, "stop"), 'data: {"error":{"message":"out of memory"}}\n\n'], ""),
        (["data: {broken\n\n", "data: 7\n\n", "data: null\n\n"], ""),
    ],
    ids=["cut", "unfinished", "empty", "one choice unfinished", "error", "garbage"],
)
def test_a_stream_that_did_not_end_well_is_incomplete(chunks: list[str], end: str) -> None:
    assert not stream(*chunks, end=end).complete


def test_a_stream_without_done_is_complete_when_it_was_finished() -> None:
    assert stream(chunk({"content": "a"}), chunk({}, "stop"), end="").complete


def test_what_a_streamed_reply_brings_comes_back_as_generated() -> None:
    """The message that a stream was put together to is what a framework will send."""
    wire = Wire()
    parts = (
        {
            "tool_calls": [
                {**made(0, name="read", arguments='{"a":'), "id": "call-1", "type": "function"}
            ]
        },
        {"tool_calls": [made(0, arguments="1}")]},
    )
    reply = stream(*(chunk(part) for part in parts), chunk({}, "tool_calls"))
    history = [say("system", "s"), say("user", "Go.")]
    wire.send(history, reply.messages[0])
    sent = wire.send([*history, call("call-1", "read", '{"a": 1}'), result("call-1", "r")])
    assert sent[2]["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
