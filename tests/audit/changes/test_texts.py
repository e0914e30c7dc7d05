"""Is each change of a text found at its first character, and as what it is?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.changes.texts import Part, Texts, joined, place_in

LINES = st.lists(
    st.sampled_from(
        (
            "",
            "You are an agent.",
            "Be careful.",
            "Current time: 12:01",
            "Today is 2026-01-31, a Saturday",
            "## Time",
            "12:30",
            "session id: abc123",
            "x-billing-header: cch=1a2b3;",
            "\0",
            "It is now 12:00 in session abc123, or 12:01.",
        )
    )
    | st.text(st.sampled_from("ab1 :-\n\0é")),
    max_size=8,
).map("\n".join)


def first(one: str, other: str) -> int:
    at = 0
    while at < min(len(one), len(other)) and one[at] == other[at]:
        at += 1
    return at


@given(LINES, LINES)
def test_any_two_texts(one: str, other: str) -> None:
    found = Texts().changes(one, other)
    assert bool(found) is (one != other)
    for change in found:
        assert 0 <= change.before <= len(one)
        assert 0 <= change.after <= len(other)
    if found and found[0].what == "text":
        assert found[0].before == found[0].after == first(one, other)
    assert sum(change.what == "text" for change in found) <= 1


@given(st.lists(st.sampled_from(("Be careful.", "Read it all.", "")), max_size=6), st.data())
def test_a_clock_anywhere(lines: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(lines)))
    old, new = (
        "\n".join([*lines[:at], f"Current time: 12:00:{second:02}", *lines[at:]])
        for second in (data.draw(st.integers(0, 29)), data.draw(st.integers(30, 59)))
    )
    (change,) = Texts().changes(old, new)
    assert change.what == "clock"
    assert change.before == change.after == first(old, new)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a\nb", "a\nb\nc", [("text", 3, 3)]),
        ("a\nb\nc", "a\nb", [("text", 3, 3)]),
        ("ax\nay", "ay", [("text", 1, 1)]),
        ("", "a", [("text", 0, 0)]),
        ("Now: 12:00\nab", "Now: 12:15\nac", [("clock", 8, 8), ("text", 12, 12)]),
        (
            "Now: 9:59 and 500 left, id: no, session id: ab12",
            "Now: 10:00 and 1500 left, id: no, session id: ab13",
            [("clock", 5, 5), ("text", 14, 15), ("id", 47, 49)],
        ),
        (
            "Left: <volatile>12</volatile>",
            "Left: <volatile>13</volatile>",
            [("text", 17, 17)],
        ),
    ],
)
def test_each_change(one: str, other: str, expected: list[tuple[str, int, int]]) -> None:
    found = [(each.what, each.before, each.after) for each in Texts().changes(one, other)]
    assert found == expected


def test_many_lines_take_no_time_without_end() -> None:
    old = "\n".join(f"{'' if at % 2 else at}" for at in range(20_000))
    new = "\n".join(f"{'' if at % 2 else at + 7}" for at in range(20_000))
    (change,) = Texts().changes(old, new)
    assert (change.what, change.before) == ("text", 0)


def test_where_a_character_of_several_parts_stands() -> None:
    parts = [Part("content[0].text", "abc"), Part("content[2].text", "de")]
    assert joined(parts) == "abc\nde"
    places = [place_in(parts, at) for at in (0, 3, 4, 6)]
    assert places == [
        ("content[0].text", 0),
        ("content[0].text", 3),
        ("content[2].text", 0),
        ("content[2].text", 2),
    ]


def test_what_lasts_of_a_text() -> None:
    texts = Texts()
    one, other = (f"Be careful.\nIt is now 12:0{at}." for at in range(2))
    assert texts.lasting(one) == texts.lasting(other)
    assert texts.lasting(one) != texts.lasting(one + " Yes.")
