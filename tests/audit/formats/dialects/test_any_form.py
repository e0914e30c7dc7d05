"""Are messages found in whatever a trace has of them?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent.audit.formats.dialects.any_form import told, tools_of
from kvagent.audit.formats.json_text import Broken
from tests.audit.formats.dialects.test_anthropic import BLOCKS
from tests.audit.formats.dialects.test_responses import ITEMS
from tests.audit.formats.files import CALL, RESULT, SYSTEM, TOOL, USER
from tests.audit.formats.test_langfuse import LANGCHAIN, PARTS

CHAT = [USER, CALL, RESULT]


@pytest.mark.parametrize("form", [CHAT, BLOCKS, ITEMS, PARTS[1:], LANGCHAIN[1:]])
@pytest.mark.parametrize("wrapped", [False, True])
def test_messages_in_any_form(form: Any, wrapped: bool) -> None:
    value = json.dumps({"messages": json.dumps(form)}) if wrapped else form
    assert told(value).messages == CHAT


def test_what_stands_beside_the_messages() -> None:
    found = told({"system": SYSTEM["content"], "messages": CHAT, "tools": [TOOL]})
    assert found.messages == [SYSTEM, *CHAT]
    assert found.tools == [TOOL]


def test_a_question_is_a_message() -> None:
    assert told("hi").messages == [{"role": "user", "content": "hi"}]
    assert told(["hi"]).messages == [{"role": "user", "content": "hi"}]
    assert told(USER).messages == [USER]
    assert told("").messages == told([]).messages == []


def test_a_text_that_only_begins_like_json() -> None:
    assert told("[sic] hi").messages == [{"role": "user", "content": "[sic] hi"}]


def test_what_a_tool_answers_is_a_text() -> None:
    part = {"type": "tool_call_response", "id": "a", "response": {"files": ["a.py"]}}
    (message,) = told([{"role": "tool", "parts": [part, 7]}]).messages
    assert message == {"role": "tool", "tool_call_id": "a", "content": '{"files":["a.py"]}'}


@pytest.mark.parametrize(
    "value", [None, 7, {}, {"a": 1}, [7], [{"content": "x"}], [[[[[[["x"]]]]]]]]
)
def test_what_holds_no_messages(value: Any) -> None:
    with pytest.raises(Broken):
        told(value)


@pytest.mark.parametrize(
    "key", ["parameters", "input_schema", "inputSchema", "parameters_json_schema"]
)
def test_tools_in_any_form(key: str) -> None:
    schema = TOOL["function"]
    assert isinstance(schema, dict)
    bare = {"name": "ls", "description": "Lists files.", key: json.dumps(schema["parameters"])}
    assert tools_of([bare]) == tools_of(json.dumps([bare])) == tools_of([TOOL]) == [TOOL]
    assert tools_of(None) == tools_of([7, {"x": 1}]) == []
