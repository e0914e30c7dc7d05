"""Is it told where calls and results do not pair?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.rules.valid import unpaired
from tests.audit.logs import SYSTEM, Message, call, interleaved, reply, request, result, user
from tests.audit.rules.audited import finding, findings

ASKED = [SYSTEM, user("Please look into it.")]
CODES = ("KVA601", "KVA602", "KVA603", "KVA604")


def both(one: str = "a", other: str = "b") -> Message:
    first, second = call("read", one), call("write", other)
    return {**first, "tool_calls": [*first["tool_calls"], *second["tool_calls"]]}


def legacy(name: str) -> list[Message]:
    return [
        {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}},
        {"role": "function", "name": name, "content": "done"},
    ]


def nameless() -> list[Message]:
    bare = {"function": {"name": "read", "arguments": "{}"}, "type": "function"}
    return [
        {"role": "assistant", "content": "", "tool_calls": [bare, bare]},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
    ]


@pytest.mark.parametrize(
    ("messages", "number"),
    [
        ([*ASKED, call("read", "a"), user("never mind")], 2),
        ([*ASKED, call("read", "a"), reply("I have not read it.")], 2),
        ([*ASKED, both(), result("x", "a"), user("go on")], 2),
        ([*ASKED, both(), result("x", "b"), call("read", "c"), result("y", "c")], 2),
    ],
)
def test_a_call_without_its_result(messages: list[Message], number: int) -> None:
    found = finding([request(messages)], "KVA601")
    assert [spot.message for spot in found.spots] == [number]
    assert found.rule.severity == "warning"


@pytest.mark.parametrize(
    ("messages", "number"),
    [
        ([*ASKED, result("x", "a")], 2),
        ([*ASKED, call("read", "a"), result("x", "b"), result("y", "a")], 3),
        ([*ASKED, call("read", "a"), result("x", "a"), reply("done"), result("y", "a")], 5),
        ([SYSTEM, result("x", "a"), user("go on")], 1),
    ],
)
def test_a_result_without_its_call(messages: list[Message], number: int) -> None:
    found = finding([request(messages)], "KVA602")
    assert [spot.message for spot in found.spots] == [number]


@pytest.mark.parametrize(
    "messages",
    [
        [*ASKED, both(), result("x", "b"), result("y", "a"), reply("done")],
        [*ASKED, both(), result("x", "a")],  # the other one may still come
        [*ASKED, call("read", "a")],
        [*ASKED, call("read", "a"), SYSTEM, result("x", "a"), reply("done")],
        [*ASKED, *legacy("read"), reply("done"), *legacy("write"), user("go on")],
        [*ASKED, *nameless(), reply("done")],
        [*ASKED, {**reply("done"), "tool_calls": None}, user("go on")],
    ],
)
def test_what_pairs(messages: list[Message]) -> None:
    for code in CODES:
        assert not findings([request(messages)], code)


def test_a_fault_is_told_once() -> None:
    """However often it is sent again."""
    messages = [*ASKED, call("read", "a"), user("never mind")]
    log = [request(messages)]
    for step in range(4):
        messages = [*messages, reply(f"step {step}"), user("go on")]
        log.append(request(messages, step + 2))
    changed = [{**SYSTEM, "content": "You are another."}, *messages[1:]]
    assert finding([*log, request(changed, 9)], "KVA601").count == 1


@pytest.mark.parametrize("arguments", ['{"path": "a', "[1, 2]", "path=a.py", '"a.py"'])
def test_arguments_that_are_no_object(arguments: str) -> None:
    found = finding([request([*ASKED, call("read", "a", arguments), result("x", "a")])], "KVA603")
    (spot,) = found.spots
    assert (spot.message, spot.field) == (2, "tool_calls[0].function.arguments")
    assert spot.excerpt == arguments


@pytest.mark.parametrize("arguments", ["{}", '{"path": "a.py"}', "", ' {"a": [1]} '])
def test_arguments_that_are_one(arguments: str) -> None:
    log = [request([*ASKED, call("read", "a", arguments), result("x", "a")])]
    assert not findings(log, "KVA603")


@pytest.mark.parametrize(
    "error",
    [
        "400 messages.236: `tool_use` ids were found without `tool_result` blocks immediately after",
        "messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1",
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each",
        "The following tool_call_ids did not have response messages: call_a",
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "No tool output found for function call call_abc.",
    ],
)
def test_a_refusal_for_it(error: str) -> None:
    found = finding([request(ASKED, error=error)], "KVA604")
    assert found.rule.severity == "error"


@pytest.mark.parametrize("error", ["Request was aborted.", "rate limit", "maximum context length"])
def test_another_refusal(error: str) -> None:
    assert not findings([request(ASKED, error=error)], "KVA604")


@given(interleaved())
def test_sessions_of_agents_pair(mixed: list[tuple[int, list[Message]]]) -> None:
    log = [request(messages, at) for at, (_, messages) in enumerate(mixed)]
    for code in CODES:
        assert not findings(log, code)


PIECES = st.sampled_from(
    [user("x"), reply("y"), call("read", "a"), both(), result("r", "a"), result("s", "b"), SYSTEM]
)


@given(st.lists(PIECES, max_size=12), st.data())
def test_what_is_new_tells_the_same_as_all(messages: list[Any], data: st.DataObject) -> None:
    """Looked at request by request, nothing is found but what all of it shows, and all of that."""
    sizes = sorted(data.draw(st.sets(st.integers(0, len(messages)))) | {len(messages)})
    seen = set()
    before = 0
    for size in sizes:
        seen |= {(rule.code, at, name) for rule, at, name in unpaired(messages[:size], before)}
        before = size
    assert seen == {(rule.code, at, name) for rule, at, name in unpaired(messages, 0)}
