"""Is the first place found at which two requests differ, and what it is?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.difference import Difference, differences
from kvagent.audit.sent import Reader
from kvagent.prefixcache.seen import common_prefix
from tests.audit.logs import SYSTEM, TOOLS, Message, call, reply, request, result, user

BODY = [
    user("Please look at the file."),
    call("read", "1", '{"path":"a.py","deep":true}'),
    result("three lines of text", "1"),
    reply("It has three lines."),
    user("go on"),
]


def between(old: list[Message], new: list[Message], **more: Any) -> tuple[Difference, ...]:
    before = more.pop("before", {})
    reader = Reader()
    return differences(reader.read(request(old, **before)), reader.read(request(new, **more)))


def one(old: list[Message], new: list[Message], **more: Any) -> Difference:
    (found,) = between(old, new, **more)
    return found


def test_growing_and_going_back_are_none() -> None:
    assert between(BODY[:3], BODY) == ()
    assert between(BODY, BODY[:3]) == ()


@pytest.mark.parametrize(
    ("index", "changed", "field", "character", "cause"),
    [
        (0, user("Please look at the files."), "content", 23, "message_changed"),
        (2, result("three rows of text", "1"), "content", 6, "message_changed"),
        (1, call("read", "1", '{"path": "a.py", "deep": true}'), "", 8, "arguments_reserialised"),
        (1, call("read", "2", '{"path":"a.py","deep":true}'), "tool_calls[0].id", 0, "ids_changed"),
        (3, {**BODY[3], "reasoning_content": "Hm."}, "reasoning_content", 0, "reasoning_dropped"),
        (
            3,
            {"role": "assistant", "content": [{"type": "text", "text": "It has three lines."}]},
            "content",
            0,
            "message_reserialised",
        ),
    ],
)
def test_a_message_that_differs(
    index: int, changed: Message, field: str, character: int, cause: str
) -> None:
    new = [*BODY[:index], changed, *BODY[index + 1 :]]
    found = one([SYSTEM, *BODY], [SYSTEM, *new])
    field = field or "tool_calls[0].function.arguments"
    assert (found.where, found.index, found.field) == ("message", index + 1, field)
    assert (found.character, found.cause) == (character, cause)


def test_a_message_removed_and_one_put_in() -> None:
    removed = one([SYSTEM, *BODY], [SYSTEM, BODY[0], *BODY[3:]])
    assert (removed.index, removed.cause) == (2, "messages_removed")
    put_in = one([SYSTEM, *BODY], [SYSTEM, BODY[0], user("By the way"), *BODY[1:]])
    assert (put_in.index, put_in.cause) == (2, "message_inserted")


def test_the_head_and_the_tools_and_the_options() -> None:
    clock = {**SYSTEM, "content": "It is noon. " + SYSTEM["content"]}
    found = between(
        [SYSTEM, *BODY],
        [clock, *BODY, user("more")],
        before={"tools": TOOLS},
        tools=TOOLS[::-1],
        options={"chat_template_kwargs": {"enable_thinking": True}, "temperature": 1},
    )
    assert [(each.where, each.cause) for each in found] == [
        ("options", "options_changed"),
        ("message", "system_changed"),
        ("tools", "tools_reordered"),
    ]
    assert found[0].field == "chat_template_kwargs"
    assert found[1].character == 0


def test_tools_that_differ() -> None:
    ordered = {"function": TOOLS[0]["function"], "type": "function"}
    assert one(BODY, BODY, before={"tools": TOOLS}, tools=[ordered, TOOLS[1]]).cause == (
        "schema_key_order"
    )
    function: Any = TOOLS[1]["function"]
    other = {**TOOLS[1], "function": {**function, "description": "To write a text."}}
    found = one(BODY, BODY, before={"tools": TOOLS}, tools=[TOOLS[0], other])
    assert (found.cause, found.index, found.field) == ("tools_changed", 1, "function.description")
    assert found.character == len("To write a ")
    added = one(BODY, BODY, before={"tools": TOOLS[:1]}, tools=TOOLS)
    assert (added.cause, added.index, added.before) == ("tools_changed", 1, "")


def test_a_system_message_more() -> None:
    found = between([SYSTEM, *BODY], [SYSTEM, {**SYSTEM, "content": "Be short."}, *BODY])
    assert [(each.where, each.index, each.cause) for each in found] == [
        ("message", 1, "system_changed")
    ]


@given(st.text(max_size=400), st.text(min_size=1), st.text(min_size=1))
def test_the_texts_stand_side_by_side(common: str, one_end: str, other_end: str) -> None:
    old, new = common + one_end, common + other_end
    at = common_prefix(old, new)
    assert old[:at] == new[:at]
    assert old[at : at + 1] != new[at : at + 1] or at == len(old) == len(new)
    if old == new:
        return
    try:
        (old + new).encode()
    except UnicodeEncodeError:
        return
    found = one([user(old)], [user(new)])
    if found.field != "content":  # "" or JSON in another form
        return
    assert found.character == at
    assert found.before[: found.offset] == found.after[: found.offset]
    assert old[at : at + 120] == found.before[found.offset :]


@pytest.mark.parametrize("odd", ["\ud800", 2**80, float("inf")])
def test_what_json_cannot_write(odd: Any) -> None:
    found = between([user("a"), reply("b")], [{"role": "user", "content": "a", "x": odd}])
    assert len(found) == 1


def test_nested_very_deep() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert len(between([user("a")], [{"role": "user", "content": deep}])) == 1
