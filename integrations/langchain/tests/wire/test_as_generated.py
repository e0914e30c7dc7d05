"""Is what a model generated sent back as it was, unless it was edited?"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from kvagent_langchain import wire

from .kinds import KINDS, OTHER
from .sent import generated


def test_a_message_without_what_was_generated_is_sent_as_it_is() -> None:
    for message in (*KINDS.values(),):
        if not message.additional_kwargs:
            form = wire.message(message)
            assert wire.as_generated(message, form) is form


@pytest.mark.parametrize(
    "arguments",
    [
        ['{"a":1,"b":[1,2]}'],
        ['{"a": 1}', '{"b":2}'],
        ['{ "a" : "\\u00e4" }'],
        ['{"a": "line\nbreak"}'],
        [""],
        ["null"],
        ['{"a":1', '{"a":2}'],
        ["not json", "{}", "nor this"],
        ['{"a":12345678901234567890}'],
        ["{}", "{}"],
    ],
)
def test_arguments_are_sent_as_they_were_generated(arguments: list[str]) -> None:
    answer = generated(*arguments)
    form = wire.as_generated(answer, wire.message(answer))
    assert form["tool_calls"] == answer.additional_kwargs["tool_calls"]
    assert list(form) == ["content", "role", "tool_calls"]


def test_arguments_that_were_edited_are_sent_as_edited() -> None:
    answer = generated('{"a":1}', '{"b":2}')
    first, second = answer.tool_calls
    for calls in ([second, first], [first], [first, {**second, "args": {"b": 3}}], []):
        edited = answer.model_copy(update={"tool_calls": calls})
        form = wire.message(edited)
        if calls:  # else what is kept is all there is
            assert wire.as_generated(edited, form) is form


@pytest.mark.parametrize(
    "raw", [None, "x", [None], [{}], [{"function": {"arguments": 1}}], {"a": 1}]
)
def test_raw_calls_that_are_none_do_no_harm(raw: Any) -> None:
    answer = AIMessage("", tool_calls=[OTHER], additional_kwargs={"tool_calls": raw})
    form = wire.message(answer)
    assert wire.as_generated(answer, form) is form


def test_reasoning_is_sent_under_the_name_it_came_under() -> None:
    for key in ("reasoning_content", "reasoning"):
        answer = AIMessage("42", additional_kwargs={key: "6*7"})
        form = wire.message(answer)
        assert wire.as_generated(answer, form) == {**form, key: "6*7"}
    # what the responses API says is no text, and the user's reasoning is no model's
    for other in (
        AIMessage("42", additional_kwargs={"reasoning": {"summary": []}}),
        AIMessage("42", additional_kwargs={"reasoning": ""}),
        HumanMessage("42", additional_kwargs={"reasoning": "6*7"}),
    ):
        form = wire.message(other)
        assert wire.as_generated(other, form) is form
