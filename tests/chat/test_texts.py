"""Which texts of a message does a model read, and can one be appended?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent.chat import Doubt, text_of, texts_of, with_text_appended
from tests.wire import say


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
