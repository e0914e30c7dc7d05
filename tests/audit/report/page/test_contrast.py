"""Does the eye fall on the first character that differs?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.report.page.contrast import Piece, side_by_side
from kvagent.audit.report.page.visible import character, visible
from kvagent.audit.rule import Contrast
from kvagent.prefixcache.seen import common_prefix

_PLAIN = st.text("ab1 :", max_size=60)


@given(_PLAIN, _PLAIN, _PLAIN)
def test_both_texts_are_whole_and_the_place_is_marked_once(
    front: str, one: str, other: str
) -> None:
    before, after = front + one, front + other
    at = common_prefix(before, after)
    for text, side in zip(
        (before, after), side_by_side(Contrast(before, after, at), cut=False), strict=True
    ):
        marks = [each for each in side if each.look in {"first", "end"}]
        assert [each.look for each in marks] == ["first" if at < len(text) else "end"]
        where = side.index(marks[0])
        assert "".join(each.text for each in side[:where]) == text[:at]
        if at < len(text):
            assert marks[0].text == character(text[at])
            assert "".join(each.text for each in side[where + 1 :]) == text[at + 1 :]


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 30))
def test_any_offset_is_borne(before: str, after: str, offset: int) -> None:
    for side in side_by_side(Contrast(before, after, offset), cut=True):
        assert all(each.text == visible(each.text) for each in side)


def test_what_differs_behind_it_is_shown_too() -> None:
    before, after = side_by_side(
        Contrast("12:30:01 and 5 files", "12:31:02 and 6 files", 4), cut=False
    )
    assert [each.text for each in before if each.look == "other"] == ["01", "5"]
    assert [each.text for each in after if each.look == "other"] == ["02", "6"]


def test_texts_with_little_in_common_are_not_pieced() -> None:
    before, after = side_by_side(
        Contrast("alright, read this in full", "<summary> Checkpoint of it", 0), cut=False
    )
    assert before == [Piece("a", "first"), Piece("lright, read this in full", "same")]
    assert after == [Piece("<", "first"), Piece("summary> Checkpoint of it", "same")]


def test_that_there_is_more_in_front_is_said() -> None:
    (first, *_), _ = side_by_side(Contrast("abcd", "abce", 3), cut=True)
    assert first == Piece("…abc", "same")
    (first, mark, *_), _ = side_by_side(
        Contrast("a" * 9_000 + "b", "a" * 9_000 + "c", 9_000), cut=False
    )
    assert first == Piece("…" + "a" * 240, "same")
    assert mark == Piece("b", "first")


def test_a_line_end_that_differs_is_seen() -> None:
    before, after = side_by_side(Contrast("a\nb", "a b", 1), cut=False)
    assert before[1:] == [Piece("↵", "first"), Piece("\n", "same"), Piece("b", "same")]
    assert after[1:] == [Piece("␣", "first"), Piece("b", "same")]
