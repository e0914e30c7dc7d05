"""Are two forms of one message told from two messages?"""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.fingerprint import (
    digest,
    identity,
    link,
    meaning,
    meaning_of_tool,
    normal_form,
    same_render,
)
from tests.wire import Message, call, result, say, tool


@pytest.mark.parametrize(
    "message",
    [
        say("user", '日本 🙂 é e\u0301 \u2028 \\ " / \x7f \t'),
        say("user", ""),
        {"content": "x", "role": "user"},
        say("user", None, name=None),
        call("call-1", "read", '{"a": 1}'),
        say("user", 1.5, extra=[1, 2.0, -0.0, 1e300, True, None, {}]),
    ],
)
def test_identity_is_the_compact_json_that_sdks_write(message: Message) -> None:
    written = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    assert identity(message) == identity(orjson.loads(written))
    assert orjson.loads(identity(message)) == message
    if b"1e" not in written:
        assert identity(message) == written


def test_a_digest_knows_where_its_parts_end() -> None:
    assert len({digest(), digest(b""), digest(b"ab"), digest(b"a", b"b"), digest(b"", b"ab")}) == 5
    assert link(b"a" * 16, b"b" * 16) != link(b"b" * 16, b"a" * 16)


SAME: list[tuple[Message, Message]] = [
    (say("user", "x"), {"content": "x", "role": "user"}),
    (say("user", "x"), say("user", "x", name=None)),
    (say("user", "x"), say("user", [{"type": "text", "text": "x"}])),
    (say("user", "x"), say("user", [{"text": "x", "type": "text", "cache_control": None}])),
    (say("user", ""), say("user", None)),
    (say("user", ""), {"role": "user"}),
    (say("user", []), say("user", None)),
    (say("user", ""), say("user", [{"type": "text", "text": ""}])),
    (say("assistant", "x"), say("assistant", "x", refusal=None, tool_calls=[], annotations=[])),
    (say("assistant", "x"), say("assistant", "x", reasoning="why", reasoning_content="why")),
    (say("assistant", "x"), say("assistant", "x", parsed={"y": 1}, index=0)),
    (call("c"), call("c", content="")),
    (call("c", "f", '{"a":1}'), call("c", "f", '{ "a" : 1 }')),
    (call("c", "f", '{"a":1,"b":2}'), call("c", "f", '{"b":2,"a":1}')),
    (call("c", "f", '{"a":"é"}'), call("c", "f", '{"a":"\\u00e9"}')),
    (call("c", "f", '{"a":1e2}'), call("c", "f", '{"a":100.0}')),
    (call("c", "f", ""), call("c", "f", "{}")),
    (result("c", '{"a": 1}'), result("c", '{"a":1}')),
    (result("c", '{"a":1,"b":[1]}'), result("c", '{"b": [1], "a": 1}')),
    (result("c", '{"a": 1}'), result("c", [{"type": "text", "text": '{"a":1}'}])),
]

OTHER: list[tuple[Message, Message]] = [
    (say("user", "x"), say("user", "x ")),
    (say("user", "x"), say("user", "X")),
    (say("user", "é"), say("user", "e\u0301")),
    (say("user", "x"), say("system", "x")),
    (say("user", "x"), say("user", "x", name="ada")),
    (say("user", '{"a": 1}'), say("user", '{"a":1}')),  # a model reads the blank
    (say("user", "xy"), say("user", [{"type": "text", "text": t} for t in "xy"])),
    (say("user", "x"), say("user", [{"type": "text", "text": "x", "cache_control": {}}])),
    (
        say("user", [{"type": "image_url", "image_url": {"url": "a"}}]),
        say("user", [{"type": "image_url", "image_url": {"url": "b"}}]),
    ),
    (say("assistant", "x"), say("assistant", "x", refusal="no")),
    (call("c"), call("d")),
    (call("c", "f"), call("c", "g")),
    (call("c", "f", '{"a":1}'), call("c", "f", '{"a":2}')),
    (call("c", "f", '{"a":1}'), call("c", "f", '{"a":1.0}')),
    (call("c", "f", '{"a":1}'), call("c", "f", '{"a":true}')),
    (call("c", "f", '{"a":null}'), call("c", "f", "{}")),
    (call("c", "f", '{"a":[1,2]}'), call("c", "f", '{"a":[2,1]}')),
    (call("c", "f", '{"n":9007199254740993}'), call("c", "f", '{"n":9007199254740992}')),
    (call("c", "f", '{"n":36893488147419103233}'), call("c", "f", '{"n":36893488147419103232}')),
    (call("c", "f", '{"n":0.1}'), call("c", "f", '{"n":0.10000000000000001}')),
    (result("c", "x"), result("d", "x")),
    (result("c", "[1] x"), result("c", "[1]  x")),
    (result("c", "a: 1"), result("c", "a:  1")),
    (result("c", "1"), result("c", "1.0")),
    (result("c", '"x"'), result("c", "x")),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_forms_that_frameworks_make_of_one_message_mean_the_same(
    one: Message, other: Message
) -> None:
    assert meaning(one) == meaning(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_a_model_would_read_otherwise_means_something_else(
    one: Message, other: Message
) -> None:
    assert meaning(one) != meaning(other)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (call("c", "f", '{"a":1}'), call("c", "f", '{"a": 1}'), False),
        (call("c", content=""), call("c", content=None), True),
        (say("assistant", "x"), say("assistant", [{"type": "text", "text": "x"}]), True),
        (say("assistant", "x"), say("assistant", "x", reasoning="y"), True),
        (say("assistant", "x"), say("assistant", "y"), False),
    ],
)
def test_what_renders_the_same_needs_no_repair(one: Message, other: Message, same: bool) -> None:
    assert same_render(one, other) is same


@pytest.mark.parametrize(
    "message",
    [
        say("tool", "[" * 5_000, tool_call_id="c"),
        say("tool", '{"a":' * 3_000 + "1" + "}" * 3_000, tool_call_id="c"),
        say("tool", "{" + "9" * 10_000 + "}", tool_call_id="c"),
        say("tool", '{"a":' + "9" * 5_000 + "}", tool_call_id="c"),
        say("tool", '{"a":1e400}', tool_call_id="c"),
        say("tool", '{"a":NaN}', tool_call_id="c"),
        say("tool", '{"a":"\\ud800"}', tool_call_id="c"),
        say("assistant", None, tool_calls=[{}, {"function": None}, {"function": {}}]),
        say("assistant", None, tool_calls=[{"function": {"arguments": {"a": 1}}}]),
        say("assistant", None, function_call={"name": "f", "arguments": '{"a": 1}'}),
        say("user", ["text", None, 7, {"type": "text"}, {"text": "x"}]),
        say("user", {"odd": True}),
        say("user", 7),
        say("user", [{"type": "text", "text": None}]),
    ],
)
def test_anything_that_is_json_has_a_meaning(message: Message) -> None:
    assert len(meaning(message)) == 16
    assert meaning(message) == meaning(json.loads(json.dumps(message)))


def test_long_numbers_in_json_text_are_kept_to_the_digit() -> None:
    one = result("c", '{"n": 123456789012345678901234567890, "x": 1}')
    assert meaning(one) == meaning(result("c", '{"x":1,"n":123456789012345678901234567890}'))
    assert meaning(one) != meaning(result("c", '{"x":1,"n":123456789012345678901234567891}'))


@given(st.text("aé", max_size=40), st.integers(10**15, 10**40))
def test_a_long_number_is_found_anywhere(text: str, number: int) -> None:
    def of(number: int) -> Message:
        return result("c", json.dumps({"text": text, "n": number}, ensure_ascii=False))

    assert normal_form(of(number))["content"]["n"] == f"number:{number}"
    assert normal_form(of(number // 10**26))["content"]["n"] == number // 10**26


def test_a_normal_form_leaves_the_message_alone() -> None:
    message = call("c", "f", '{"a": 1}', content="")
    before = json.dumps(message)
    normal_form(message)
    assert json.dumps(message) == before


# -- tools


READ = tool(
    "read", path={"type": "string", "enum": ["a", "b"]}, limit={"type": ["integer", "null"]}
)


def changed(**function: Any) -> Message:
    return {"type": "function", "function": {**READ["function"], **function}}


@pytest.mark.parametrize(
    "other",
    [
        json.loads(json.dumps(READ, sort_keys=True)),
        {**READ, "strict": None},
        changed(strict=None),
        changed(
            parameters={
                "required": ["limit", "path"],
                "properties": {
                    "limit": {"type": ["null", "integer"]},
                    "path": {"enum": ["b", "a"], "type": "string"},
                },
                "type": "object",
            }
        ),
    ],
    ids=["keys sorted", "null", "null inside", "properties and sets reordered"],
)
def test_forms_of_one_tool_mean_the_same(other: Message) -> None:
    assert meaning_of_tool(other) == meaning_of_tool(READ)


@pytest.mark.parametrize(
    "other",
    [
        changed(description="Other."),
        changed(strict=True),
        changed(parameters={"type": "object"}),
        changed(parameters={**READ["function"]["parameters"], "required": ["path"]}),
        changed(parameters={**READ["function"]["parameters"], "default": None}),
        {**READ, "type": "custom"},
        {},
    ],
)
def test_another_tool_means_something_else(other: Message) -> None:
    assert meaning_of_tool(other) != meaning_of_tool(READ)


def test_a_property_may_be_called_like_a_keyword() -> None:
    one = tool("x", enum={"default": ["b", "a"]}, required={"const": ["b", "a"]})
    other = tool("x", enum={"default": ["a", "b"]}, required={"const": ["b", "a"]})
    assert meaning_of_tool(one) != meaning_of_tool(other)


@pytest.mark.parametrize(
    "odd", [{"function": "x"}, {"function": None}, {"name": "x"}, "x", None, []]
)
def test_any_json_may_stand_for_a_tool(odd: Any) -> None:
    assert len(meaning_of_tool(odd)) == 16
