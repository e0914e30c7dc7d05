"""Is the line that differs the one that is shown, and the character the right one?"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvagent.audit.report.lines import Differing, cost, differing, one_line
from kvagent.audit.rule import Contrast
from kvagent.prefixcache.seen import common_prefix
from tests.audit.report.reports import CLOCK, finding

TEXTS = st.text(
    st.sampled_from("ab \n\t\r\x1b\u2028🙂") | st.characters(codec="utf-8"), max_size=200
)


def shown(before: str, after: str) -> Differing:
    return differing(Contrast(before, after, common_prefix(before, after)))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nit is 1 now\nb", "a\nit is 2 now\nb", ("it is 1 now", "it is 2 now", 6)),
        ("", "new", ("", "new", 0)),
        ("gone\nall", "", ("gone", "", 0)),
        ("same", "same and more", ("same", "same and more", 4)),
        ("one\ntwo", "one two", ("one↵two", "one two", 3)),
        ("0\none\n", "0\none\ntwo", ("one↵", "one↵two", 4)),
        ("\nnew", "\n", ("↵new", "↵", 1)),
        ("x" * 100 + "1", "x" * 100 + "2", ("…" + "x" * 60 + "1", "…" + "x" * 60 + "2", 61)),
        ("1" + "x" * 100, "2" + "x" * 100, ("1" + "x" * 59 + "…", "2" + "x" * 59 + "…", 0)),
        ("a\x1b[1m1", "a\x1b[1m2", ("a⟨U+001B⟩[1m1", "a⟨U+001B⟩[1m2", 12)),
    ],
)
def test_the_line_around_the_place(before: str, after: str, expected: tuple[str, str, int]) -> None:
    made = shown(before, after)
    assert (made.before, made.after, made.at) == expected


@given(common=TEXTS, old=TEXTS, new=TEXTS)
@example(common="\n", old="", new="new")
def test_both_lines_are_alike_up_to_the_place(common: str, old: str, new: str) -> None:
    before, after = common + old, common + new
    made = shown(before, after)
    for line, text in ((made.before, before), (made.after, after)):
        assert one_line(line) == line
        assert len(line.splitlines()) <= 1
        assert bool(line) == bool(text)
    if before and after:
        assert made.before[: made.at] == made.after[: made.at]
        at = common_prefix(before, after)
        sides = [side[at : at + 1] for side in (before, after)]
        if all(side and side == one_line(side) for side in sides):
            assert [made.before[made.at], made.after[made.at]] == sides


@pytest.mark.parametrize(
    ("exact", "expected"),
    [
        (True, "Seen 1 time, 84 tokens computed once more, 2.00 KiB of KV cache."),
        (False, "Seen 1 time, ≈84 tokens computed once more, ≈2.00 KiB of KV cache."),
    ],
)
def test_an_estimate_is_told_as_one(exact: bool, expected: str) -> None:
    assert cost(finding(CLOCK, kv_bytes=2048), exact=exact) == expected
