"""Are requests and replies read as they are, and written without touching what was not changed?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import Bypassed, Edited
from kvagent.chat import (
    ChatReply,
    ChatRequest,
    Doubt,
    calls_of,
    text_of,
    texts_of,
    with_text_appended,
)
from kvagent.fingerprint import identity
from tests.wire import Message, Wire, call, compact, first_call, kept, result, say, tool


def parse(body: Any) -> ChatRequest:
    return ChatRequest.parse(compact(body).encode())


# -- reading a request


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


# -- writing a request


MESSAGES = [say("system", "s"), say("user", "Zürich")]
TOOLS = [tool("read"), tool("list")]


def rewritten(raw: bytes, tools: list[Message] | None = None) -> bytes:
    """The request with another last message, and other tools."""
    request = ChatRequest.parse(raw)
    came = [identity(message) for message in request.messages]
    new = [*came[:-1], b'{"role":"user","content":"NEW"}']
    return request.rewritten(came, new, None if tools is None else identity(tools))


@pytest.mark.parametrize(
    "body",
    [
        {"messages": MESSAGES, "model": "m", "stream": True},
        {"model": "m", "messages": MESSAGES, "tools": TOOLS, "tool_choice": "auto"},
        {"tools": TOOLS, "messages": MESSAGES, "metadata": {"a": [1, 2.50, "\u2028", None]}},
        {
            "messages": MESSAGES,
            "stop": ['"messages":[', '"tools":[]'],
            "logit_bias": {"50256": -100},
        },
    ],
)
def test_of_a_compact_body_only_the_messages_change(body: Any) -> None:
    raw = compact(body).encode()
    assert rewritten(raw) == raw.replace("Zürich".encode(), b"NEW")


def test_tools_are_replaced_where_they_stand() -> None:
    raw = compact({"tools": TOOLS, "messages": MESSAGES, "n": 2}).encode()
    expected = compact({"tools": TOOLS[::-1], "messages": MESSAGES, "n": 2}).encode()
    assert rewritten(raw, TOOLS[::-1]) == expected.replace("Zürich".encode(), b"NEW")


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"messages": MESSAGES, "temperature": 0.10, "top_p": 1.0, "x": "é"}).encode(),
        json.dumps({"x": {"b": 1, "a": [None]}, "messages": MESSAGES}, indent=2).encode(),
        b'{"messages": [{"role": "user", "content": "Z"}], "seed": 123456789012345678901234567890}',
        b'{"seed":1,"messages":[{"role":"user","content":"a","content":"Z"}],"seed":2}',
        b'{"a":{"messages":[{"role":"user","content":"Z"}]},"messages":[{"role":"user","content":"Z"}]}',
        b'{"messages":[{"role":"user","content":"old"}],"messages":[{"role":"user","content":"Z"}]}',
    ],
    ids=["spaced", "indented", "big int", "twice a key", "same key inside", "twice messages"],
)
def test_other_bodies_are_written_anew_without_loss(raw: bytes) -> None:
    before, after = json.loads(raw), json.loads(rewritten(raw))
    assert after.pop("messages")[-1] == {"role": "user", "content": "NEW"}
    before.pop("messages")
    assert repr(after) == repr(before)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages": [{"role":"user","content":"x","n":18446744073709551616}]}',
        b'{"messages": [{"role":"user","content":"x"}], "logit_bias": {"1": 1e400}}',
        b'{"messages": [{"role":"user","content":"x"}], "stop": NaN}',
    ],
)
def test_numbers_that_would_not_survive_are_doubted(raw: bytes) -> None:
    with pytest.raises(Doubt):
        rewritten(raw)


# -- bodies of any kind, through the engine


CLOCK = say("system", "You help. Current time: 04:12")
UNTOUCHED: dict[str, Any] = {
    "n": 2,
    "logprobs": True,
    "top_logprobs": 3,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"b": 1, "a": 2}},
    },
    "tool_choice": {"type": "function", "function": {"name": "read"}},
    "parallel_tool_calls": False,
    "stream_options": {"include_usage": True},
    "logit_bias": {"50256": -100},
    "seed": 9007199254740993,
    "stop": ["\n\n", "🙂"],
    "x-unknown": {"nested": [None, 1.5, "é", {}]},
    "cache_salt": "abc",
}


@pytest.mark.parametrize(
    "dump",
    [
        compact,
        json.dumps,
        lambda body: json.dumps(body, indent=1),
        lambda b: json.dumps(b, sort_keys=True),
    ],
    ids=["compact", "spaced", "indented", "sorted"],
)
def test_options_and_unknown_keys_survive(dump: Any) -> None:
    wire = Wire()
    wire.send([CLOCK, say("user", "One?")], dump=dump, tools=TOOLS, **UNTOUCHED)
    body = wire.bodies[0]
    came = json.loads(dump({"messages": [], "model": "m", **UNTOUCHED, "tools": TOOLS}))
    assert body["messages"][1]["content"] != "One?"  # it bears a note
    assert list(body) == list(came)
    del body["messages"], came["messages"]
    assert compact(body) == compact(came)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[{"role":"user","content":"x"}],"model":"m"}',
        b' {"model" : "m" , "messages" : [ { "role" : "user", "content" : "\\u00e9\\/" } ] } \n',
        b'{"messages":[{"role":"user","content":"x","content":"y"}],"model":"a","model":"m"}',
        b'{"messages":[{"role":"user","content":"x","big":123456789012345678901234567890}]}',
        b'{"messages":[{"role":"user","content":"x"}],"logit_bias":{"1":1e400}}',
        b'{"messages":[{"role":"user","content":"x"}],"temperature":NaN}',
        b'{"messages":[{"role":"user","content":"x","f":1.10,"g":-0.0,"h":1E5}]}',
        b'\xef\xbb\xbf{"messages":[{"role":"user","content":"x"}]}',
        b'{"messages":[{"role":"user","content":"\\ud83d\\ude42 \\ud800"}]}',
    ],
)
def test_bodies_that_need_no_change_go_out_as_they_came(raw: bytes) -> None:
    wire = Wire()
    assert first_call(wire.engine.turn(raw)).body is raw


@pytest.mark.parametrize(
    "extra",
    [
        b'"seed":123456789012345678901234567890',
        b'"temperature":1e400',
        b'"temperature":NaN',
        b'"temperature":1.10',
        b'"seed":1,"seed":2',
        b'"x":"\\u00e9\\/"',
    ],
)
def test_odd_values_beside_changed_messages_survive_or_nothing_changes(extra: bytes) -> None:
    raw = b'{"messages":' + compact([CLOCK, say("user", "One?")]).encode() + b"," + extra + b"}"
    sent = first_call(Wire().engine.turn(raw)).body
    assert sent == raw or sent.endswith(b"," + extra + b"}")


def test_a_change_of_whitespace_alone_repairs_nothing() -> None:
    wire = Wire()
    history = [say("system", "s"), say("user", "One?")]
    wire.send(history, say("assistant", "ok"))
    wire.send([*history, say("assistant", "ok"), say("user", "Two?")], dump=json.dumps)
    assert kept(wire.bodies[0], wire.bodies[1])
    assert wire.raws[1].startswith(b'{"messages": [')
    assert not wire.of(Edited)


# -- texts


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("x", ["x"]),
        ("", [""]),
        (None, []),
        ([], []),
        (
            [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}],
            ["a", "b"],
        ),
        ([{"type": "text", "text": None}, "loose", None], []),
        ({"odd": 1}, []),
    ],
)
def test_texts_are_what_a_model_reads(content: Any, texts: list[str]) -> None:
    assert texts_of(say("user", content)) == texts
    assert text_of(say("user", content)) == "\n".join(texts)
    assert texts_of({"role": "user"}) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("x", "x\n\nNOTE"),
        ("", "NOTE"),
        (None, "NOTE"),
        ([], [{"type": "text", "text": "NOTE"}]),
        ([{"type": "image_url"}], [{"type": "image_url"}, {"type": "text", "text": "NOTE"}]),
    ],
)
def test_text_is_appended_to_a_copy(content: Any, expected: Any) -> None:
    message = say("user", content, name="ada")
    before = json.dumps(message)
    assert with_text_appended(message, "\n\nNOTE") == say("user", expected, name="ada")
    assert json.dumps(message) == before


def test_text_cannot_be_appended_to_what_is_no_content() -> None:
    with pytest.raises(Doubt, match="content of a user message is a int"):
        with_text_appended(say("user", 7), "x")


# -- replies


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


def test_observe_mode_sends_the_very_bytes() -> None:
    """Whatever would have been done to them."""
    wire = Wire(mode="observe")
    history: list[Message] = [say("user", "One? <note>Mind the gap, please.</note>")]
    tools = list(TOOLS)
    for number in range(6):
        dump = (compact, json.dumps)[number % 2]
        head = say("system", f"You help {number // 4}. Current time: 04:1{number}")
        body = {"messages": [head, *history], "tools": tools, "stop": [number]}
        raw = dump(body).encode()
        assert first_call(wire.engine.turn(raw)).body is raw
        wire.send([head, *history], call(f"c{number}", "read", '{"a":1}'), tools=tools, dump=dump)
        history[0] = say("user", "One?")
        history += [
            call(f"c{number}", "read", '{"a": 1}'),
            result(f"c{number}", "A long line of a long result.\n" * 2_000),
            say("user", "More? <note>Mind the gap, please.</note>"),
        ]
        tools.reverse()
    stages = {event.stage for event in wire.of(Edited)}
    assert stages == {"pin_head", "echo", "evict", "replay"}
    assert not any(event.applied for event in wire.of(Edited))
