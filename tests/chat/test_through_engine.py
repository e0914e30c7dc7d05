"""Does a body of any kind pass the engine with every value that it does not change?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import Edited
from tests.chat.rewriting import TOOLS
from tests.wire import Message, Wire, call, compact, first_call, kept, result, say

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
