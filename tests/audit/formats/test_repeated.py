"""Is a line that repeats another one read as if it stood alone?"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.formats.dialects import asking
from kvagent.audit.formats.json_text import Broken, parsed
from kvagent.audit.formats.repeated import Messages, Repeated, all_pass
from tests.audit.formats.mutants import damaged, wrong
from tests.audit.logs import TOOLS, Message, call, reply, result, session


def plain(data: bytes) -> Any:
    try:
        return parsed(data)
    except Broken as error:
        return str(error)


def repeated(reader: Repeated, data: bytes) -> Any:
    try:
        return reader.parsed(data)
    except Broken as error:
        return str(error)


@st.composite
def lines(draw: st.DrawFn) -> list[bytes]:
    """Sessions in turn, written in many ways; some lines are damaged."""
    chance = random.Random(draw(st.integers(0, 99_999)))
    separators = draw(st.sampled_from(((",", ":"), (", ", ": "), (" ,", " :\t"))))
    holder = draw(st.sampled_from((None, "body", "request")))
    made = []
    for prompt in session("a", 5, 0) + session("b", 3, 1) + session("a", 7, 0):
        body: dict[str, Any] = {"messages": prompt}
        if draw(st.booleans()):
            body = {**body, "tools": TOOLS}
        if draw(st.booleans()):
            body = {"model": "m", **body, "id": chance.random()}
        record = body if holder is None else {holder: body, "response": {"messages": []}}
        if chance.random() < 0.2:
            record = wrong(record, chance)
        data = json.dumps(record, separators=separators).encode("utf-8", "surrogatepass")
        made.append(damaged(data, chance) if chance.random() < 0.1 else data)
    return made


@given(lines())
def test_the_same_values(log: list[bytes]) -> None:
    reader = Repeated()
    for data in log:
        one, other = repeated(reader, data), plain(data)
        assert json.dumps(one) == json.dumps(other)
    assert_in_order(reader)


def assert_in_order(reader: Repeated) -> None:
    """Else a line that is held is not found."""
    heads = [line.head for line in reader._lines]
    assert reader._heads == heads == sorted(set(heads))
    assert reader._size == sum(map(len, heads))


ODD = (
    b'{"messages": [1, 2]}',
    b'{"messages": [1, 23]}',
    b'{"messages": [1, 2, ]}',
    b'{"messages": [1, 2,, 3]}',
    b'{"messages": [1, 2] 3]}',
    b'{"messages": [1, 2, 3]}',
    b'{"messages": [ ]}',
    b'{"messages": [ , 1]}',
    b'{"messages": [{}], "x": [{}]}',
    b'{"messages": [{}], "x": [{}], "x": [{}]}',
    b'{"messages": [{}], "messages": [{}, {}], "x": [{}]}',
    b'{"messages": [{}, {}], "messages": 7}',
    b'{"a": {"messages": [{}]}, "messages": [{}, {"a": "]"}]}',
    b'{"a": "\\"messages\\": [", "messages": ["the messages of this line"]}',
    b'{"messages": [], "messages": ["the messages of this line"]}',
    b'[{"messages": [1]}]',
    b'{"messages": [1',
    b'{"messages": ["\\',
    b'{"messages": ["a\\"]}',
    b'{"messages": [NaN, 1]}',
    b'{"messages": [NaN, 1, 2]}',
    b'{"messages": ["\\ud83d"]}',
    b'{"messages": ["\xff"]}',
)


@given(st.lists(st.sampled_from(ODD)))
def test_odd_lines(log: list[bytes]) -> None:
    reader = Repeated()
    for data in log:
        assert json.dumps(repeated(reader, data)) == json.dumps(plain(data))
    assert_in_order(reader)


def test_messages_are_the_same_objects() -> None:
    reader = Repeated()
    prompts = session("a", 4, 0)
    bodies = [{"messages": prompt, "tools": TOOLS} for prompt in prompts]
    values = [reader.parsed(json.dumps(body).encode()) for body in bodies]
    for before, after in pairwise(values):
        assert after["tools"] is before["tools"]
        for one, other in zip(before["messages"], after["messages"], strict=False):
            assert one is other


FUNCTIONS: tuple[Message, ...] = (
    {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}},
    {"role": "function", "name": "read", "content": "x"},
    {"role": "assistant", "content": "x", "function_call": None},
)
BLOCKS: tuple[Message, ...] = (
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read"}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]},
    {"role": "user", "content": [{"type": "text", "text": "x"}]},
)
FAULTS: tuple[Any, ...] = (7, "role", [], {}, {"role": 7}, {"role": "x", "tool_calls": [{}, 7]})


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Any]]:
    """Prompts of which each continues the one before; there are few other forms and faults."""
    plain = [call("read", "1"), result("x", "1"), reply("x"), *FUNCTIONS[2:], *BLOCKS[2:]]
    kinds = [plain, plain, plain, FUNCTIONS, BLOCKS, FAULTS]
    messages: list[Any] = []
    prompts = []
    for _ in range(draw(st.integers(1, 6))):
        drawn = draw(st.lists(st.sampled_from(kinds), max_size=3))
        messages += [draw(st.sampled_from(kind)) for kind in drawn]
        prompts.append(list(messages))
    return prompts


def asked(messages: list[Any]) -> Any:
    body = {"messages": messages}
    dialect = asking(body)
    if dialect is None:
        return None
    try:
        return dialect.name, list(dialect.asked(body).messages)
    except Broken as error:
        return dialect.name, str(error)


@given(conversations(), st.booleans())
def test_a_line_holds_what_it_holds_alone(prompts: list[list[Any]], ahead: bool) -> None:
    """Whatever its messages were found to be in the lines before; also if all are read first."""
    reader = Repeated()
    values = (reader.parsed(json.dumps({"messages": prompt}).encode()) for prompt in prompts)
    for prompt, value in zip(prompts, list(values) if ahead else values, strict=True):
        assert asked(value["messages"]) == asked(prompt)


def test_only_what_is_new_is_asked() -> None:
    seen: list[int] = []

    def few(messages: list[Any]) -> bool:
        seen.append(len(messages))
        return all(message["role"] != "x" for message in messages)

    roles = ["a", "b"], ["a", "b", "c"], ["a", "b", "c"], ["a", "b", "c", "x"], [*"abcxa"]
    reader = Repeated()
    for prompt in roles:
        made = [{"role": role} for role in prompt]
        messages = reader.parsed(json.dumps({"messages": made}).encode())["messages"]
        assert isinstance(messages, Messages)
        assert all_pass(messages, few) == ("x" not in prompt)
    assert seen == [2, 1, 1, 2]


def test_what_is_held_has_an_end() -> None:
    """Far more lines than there is room for; the newest are still known."""
    reader = Repeated()
    filling = "x" * 100_000
    for number in range(300):
        message = {"role": "user", "content": f"{number} {filling}"}
        one = reader.parsed(json.dumps({"messages": [message]}).encode())
        other = reader.parsed(json.dumps({"messages": [message, message]}).encode())
        assert one["messages"][0] is other["messages"][0]
    assert sum(len(head) for head in reader._heads) < 13 << 20


def test_a_text_without_an_end_takes_no_time_without_end() -> None:
    data = b'{"messages": [' + b'"\\' * 1_000_000
    assert repeated(Repeated(), data) == plain(data)
