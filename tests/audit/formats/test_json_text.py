"""Is JSON read, also where a log wrote it a little wrong?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.formats import json_text
from kvagent.audit.formats.json_text import Broken, dumped, parsed, parsed_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_json_is_read(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    assert parsed_text(text) == value
    assert parsed(text.encode()) == value
    assert json.loads(dumped(value)) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (rb'["cut \ud83d", "\\ud83d", "\ud83d\ude00"]', ["cut �", "\\ud83d", "😀"]),
        (b"[NaN, -Infinity, 1]", [None, None, 1]),
        (b'["\xff"]', ["�"]),
        (b'["a\tb"]', ["a\tb"]),
        (b"[1" + b"0" * 5000 + b", NaN]", [float("inf"), None]),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b"\xef\xbb\xbf{}", {}),
    ],
)
def test_what_is_nearly_json_is_read(data: bytes, value: Any) -> None:
    assert parsed(data) == value


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a": ', "is not JSON: Expecting value at character 7"),
        (b"{} {}", "is not JSON: Extra data at character 4"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_is_not_json_says_why(data: bytes, why: str) -> None:
    with pytest.raises(Broken) as caught:
        parsed(data)
    assert str(caught.value) == why


def test_a_text_may_hold_half_a_pair() -> None:
    assert parsed_text('["\ud83d"]') == ["?"]
    assert dumped(["\ud83d"])


def test_a_value_that_is_nested_too_deeply_has_no_text() -> None:
    value: Any = []
    for _ in range(500):
        value = [value]
    assert dumped(value) == "[" * 501 + "]" * 501
    for _ in range(100_000):
        value = [value]
    with pytest.raises(Broken, match="too deeply"):
        dumped(value)


def test_what_is_large_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_LENIENT", 10)
    with pytest.raises(Broken, match="is not JSON"):
        parsed(b"[NaN, 1, 2, 3]")
    with pytest.raises(Broken, match="is not JSON"):
        parsed_text("[NaN, 1, 2, 3]")
    monkeypatch.setattr(json_text, "_LARGE", 10)
    monkeypatch.setattr(json_text, "_MOST", 4)
    assert parsed(b"[[], [], []]")
    with pytest.raises(Broken, match="more values"):
        parsed(b"[[], [], [], []]")
