"""Does a field give what its name says, and nothing else?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.formats.fields import (
    apart,
    either_way,
    elapsed,
    first,
    items,
    mapping,
    name,
    objects,
    seconds,
    shown,
    string,
    tokens,
    told,
    total,
)
from kvagent.audit.transcript import Reported

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@given(ANYTHING)
def test_nothing_raises(value: Any) -> None:
    assert isinstance(mapping(value), dict)
    assert isinstance(items(value), list)
    assert all(isinstance(each, dict) for each in objects(value))
    assert isinstance(shown(value), str)
    for text in (string(value), name(value), told(value)):
        assert text is None or isinstance(text, str)
    count = tokens(value)
    assert count is None or 0 <= count <= 10**10
    for time in (seconds(value), elapsed(value)):
        assert time is None or time >= 0
    assert either_way(value, value, value, value, value).prompt_tokens in (
        None,
        count,
        total(value, value, value),
    )


NOON = 1_767_268_800.0
YES = True  # a truth value is no number


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:00:00",
        "2026-01-01T13:00:00+01:00",
        NOON,
        int(NOON * 1e3),
        str(int(NOON * 1e6)),
        int(NOON * 1e9),
    ],
)
def test_a_time_in_any_unit(time: Any) -> None:
    assert seconds(time) == NOON


@pytest.mark.parametrize(
    "time", [None, True, "", "noon", -1, float("nan"), float("inf"), 10**40, "9" * 50, []]
)
def test_what_is_no_time(time: Any) -> None:
    assert seconds(time) is None


def test_counts() -> None:
    assert tokens("27") == tokens(27.0) == 27
    assert tokens(YES) is tokens(-1) is tokens(10**12) is tokens("1.5") is None
    assert total(None, 2, "3") == 5
    assert total(None, "x") is None
    assert apart(1, 2, None, 4) == Reported(3, 2, 4, None)
    assert apart(None, 2, 3, 4).prompt_tokens is None


@pytest.mark.parametrize(
    ("counts", "prompt"),
    [
        ((100, 60, None, 5, 105), 100),  # the total has what was cached once
        ((100, 60, None, 5, 165), 160),
        ((100, 60, 10, 5, 175), 170),
        ((10, 60, None, 5, None), 70),  # cannot hold what was cached
        ((100, 60, None, 5, None), 100),
        ((100, None, None, 5, 105), 100),
        ((None, 60, None, 5, None), None),
    ],
)
def test_what_was_cached_is_part_of_the_prompt(counts: Any, prompt: int | None) -> None:
    assert either_way(*counts).prompt_tokens == prompt


def test_texts_of_content() -> None:
    content = ["a", {"type": "text", "text": "b"}, {"content": [{"text": "c"}]}, {"x": 1}, None, 3]
    assert shown(content) == "a\nb\nc"
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    assert shown(deep) == ""


def test_errors() -> None:
    assert told({"message": "too long"}) == told({"error": {"message": "too long"}}) == "too long"
    assert told({}) == "an error that does not say what it is"
    assert told(None) is told("") is told(not YES) is None
    assert told(429) == "429"


def test_the_first_that_is_said() -> None:
    assert first({"a": None, "b": 0, "c": 1}, ("a", "b", "c")) == 0
    assert first({}, ("a",)) is None
    assert name(YES) is name("") is None
    assert name(0) == "0"
