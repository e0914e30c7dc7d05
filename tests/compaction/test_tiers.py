"""Do narratives stay as they are, and is each line merged only a few times?"""

from __future__ import annotations

from itertools import pairwise
from math import log2

from hypothesis import given
from hypothesis import strategies as st

from kvagent.compaction import narrative as form
from kvagent.compaction.tiers import Tier, merged, settled
from tests.compaction.sessions import words


def tier(number: int, lines: int = 4) -> Tier:
    told = {
        form.CURRENT: [f"- The user had asked for part {number}."],
        form.DONE: [f"- Step {number}.{line} was done." for line in range(lines)],
        form.DECIDED: [f"- Choice {number} was made, because it was the smaller one."],
        form.NEXT: [f"- Part {number + 1} was to follow."],
    }
    text = form.written(told)
    return Tier(number * 10, number * 10 + 10, text, words(text))


def test_nothing_is_merged_while_there_is_room() -> None:
    tiers = [tier(0), tier(1)]
    assert settled(tiers, 10_000, words) == tuple(tiers)


def test_the_oldest_half_is_merged_and_the_others_stay() -> None:
    tiers = [tier(number) for number in range(6)]
    made = settled(tiers, sum(one.tokens for one in tiers) - 1, words)
    assert made[-3:] == tuple(tiers[-3:])
    assert len(made) == 4
    assert (made[0].first, made[0].last, made[0].level) == (0, 30, 1)


def test_what_is_of_the_moment_is_told_by_the_newest_alone() -> None:
    made = merged([tier(0), tier(1)], 10_000, words)
    sections = form.sections_of(made.text)
    assert sections[form.CURRENT] == ["- The user had asked for part 1."]
    assert sections[form.NEXT] == ["- Part 2 was to follow."]
    assert len(sections[form.DECIDED]) == 2
    assert sections[form.FAILED] == ["None"]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(40, 2_000))
def test_what_is_merged_fits_and_rewords_nothing(sizes: list[int], cap: int) -> None:
    tiers = [tier(number, lines) for number, lines in enumerate(sizes)]
    made = settled(tiers, cap, words)
    smallest = words(form.written({}))
    assert sum(one.tokens for one in made) <= max(cap, smallest)
    before = {line for one in tiers for line in one.text.split("\n")}
    assert {line for one in made for line in one.text.split("\n")} <= before | {"None"}
    borders = [(one.first, one.last) for one in made]
    assert borders[0][0] == 0
    assert borders[-1][1] == 10 * len(tiers)
    assert all(a[1] == b[0] for a, b in pairwise(borders))


def test_a_line_is_merged_about_as_often_as_the_logarithm() -> None:
    standing: tuple[Tier, ...] = ()
    rounds = 256
    for number in range(rounds):
        standing = settled([*standing, tier(number)], 1_200, words)
    assert max(one.level for one in standing) <= 3 * log2(rounds)
    assert sum(one.tokens for one in standing) <= 1_200
