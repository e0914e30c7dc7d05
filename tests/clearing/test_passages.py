"""Which texts of a message may become shorter, and does everything else stay?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent.clearing.passages import arguments_at, replaced, texts_at
from tests.clearing.prompts import reply


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("hello", {("content",): "hello"}),
        (
            [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}],
            {("content", 0, "text"): "a", ("content", 2, "text"): "b"},
        ),
        (None, {}),
        (7, {}),
        (["bare", {"text": 3}], {}),
    ],
)
def test_texts_of_the_content(content: Any, texts: dict[Any, str]) -> None:
    assert dict(texts_at({"role": "tool", "content": content})) == texts


def test_an_image_stays_where_a_text_beside_it_is_replaced() -> None:
    parts: list[Any] = [
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "text", "text": "long"},
    ]
    message = {"role": "user", "content": parts, "name": "n"}
    new = replaced(message, {("content", 1, "text"): "short"})
    assert new == {
        "role": "user",
        "content": [parts[0], {"type": "text", "text": "short"}],
        "name": "n",
    }
    assert parts[1]["text"] == "long"


def test_texts_within_arguments() -> None:
    message = reply(
        "", ("c", "edit", {"path": "a.py", "edits": [{"old": "x", "n": 1}], "ok": True})
    )
    place = ("tool_calls", 0, "function", "arguments")
    assert dict(arguments_at(message)) == {
        (*place, "path"): "a.py",
        (*place, "edits", 0, "old"): "x",
    }


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "null", '"text"', None, {"a": "b"}])
def test_arguments_that_are_no_json_object_are_left_alone(arguments: Any) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    assert not list(arguments_at({"role": "assistant", "tool_calls": [call]}))


def test_arguments_stay_json_with_all_their_keys_and_numbers() -> None:
    before = {"path": "a.py", "content": "many words", "big": 2**70, "pi": 3.5, "none": None}
    message = reply("said", ("c1", "read", {}), ("c2", "write", before))
    place = ("tool_calls", 1, "function", "arguments", "content")
    new = replaced(message, {place: 'few "words"\n'})
    assert new["tool_calls"][0] == message["tool_calls"][0]
    call = new["tool_calls"][1]
    assert (call["id"], call["function"]["name"]) == ("c2", "write")
    assert json.loads(call["function"]["arguments"]) == before | {"content": 'few "words"\n'}
    assert list(json.loads(call["function"]["arguments"])) == list(before)
