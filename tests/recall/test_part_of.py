"""Which part of a text do lines and a query name?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.recall import part_of

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=8),
    min_size=1,
    max_size=9,
).map("\n".join)


@given(TEXTS, st.data())
def test_lines_put_together_are_the_text(text: str, data: Any) -> None:
    count = len(text.removesuffix("\n").split("\n")) if text else 0
    if not count:
        return
    cuts = sorted(data.draw(st.sets(st.integers(2, count), max_size=4))) if count > 1 else []
    spans = list(zip([1, *cuts], [*(cut - 1 for cut in cuts), count], strict=True))
    assert "".join(part_of(text, span) for span in spans) == text
    assert "".join(part_of(text, f"{first}-{last}") for first, last in spans) == text


@given(TEXTS, st.text(max_size=3))
def test_lines_found_are_those_that_hold_the_words(text: str, query: str) -> None:
    found = part_of(text, query=query)
    lines = text.removesuffix("\n").split("\n")
    held = [n for n, line in enumerate(lines, 1) if query.casefold() in line.casefold()]
    expected = "\n".join(f"{n}:{lines[n - 1]}" for n in held) if text else ""
    assert found == expected


@pytest.mark.parametrize("lines", ["2-3", "2–3", "2:3", "2,3", "2 to 3", " 2 - 3 ", (2, 3)])
def test_lines_however_they_are_named(lines: Any) -> None:
    assert part_of("a\nb\nc\nd", lines) == "b\nc\n"


def test_the_end_may_lie_behind_the_end() -> None:
    assert part_of("a\nb", "2-99") == "b"
    assert part_of("a\nb\n", "2-99") == "b\n"


@pytest.mark.parametrize("lines", ["0", "3-2", "-1", "a-b", "1-2-3", "", (0, 1), (5, 5), 9])
def test_lines_that_are_none_are_refused(lines: Any) -> None:
    with pytest.raises(ValueError, match="lines"):
        part_of("a\nb\n", lines)


def test_lines_and_query_together() -> None:
    assert part_of("ab\nb\nabc\n", "2-3", "A") == "3:abc"
