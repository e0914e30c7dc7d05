"""Does the line of messages have their widths, and a cut at each break?"""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.report.page.timeline import Block, broken, lines
from kvagent.audit.session import Break, Row, Timeline
from kvagent.audit.turns import Parts
from tests.audit.report.reports import row

_ROLES = st.sampled_from(["system", "user", "assistant", "tool", "odd"])


def timeline(messages: list[tuple[str, int]]) -> Timeline:
    return Timeline(
        [role for role, _ in messages],
        array("I", [tokens for _, tokens in messages]),
        array("I", [1] * len(messages)),
    )


def rows(*breaks: Break, head: int = 0) -> list[Row]:
    return [
        row(number, breaks=(each,), parts=Parts(head=head)) for number, each in enumerate(breaks, 2)
    ] or [row(1, parts=Parts(head=head))]


@given(st.lists(st.tuples(_ROLES, st.integers(0, 9_000)), max_size=700), st.integers(0, 500))
def test_blocks_fill_their_lines_in_order(messages: list[tuple[str, int]], tools: int) -> None:
    system = sum(tokens for role, tokens in messages if role == "system")
    drawn = lines(timeline(messages), rows(head=system + tools), exact=True)
    if not any(tokens for _, tokens in messages) and not tools:
        assert drawn == []
        return
    assert len(drawn) <= 6
    for line in drawn:
        assert sum(block.width for block in line.blocks) == pytest.approx(1, abs=1e-6)
        assert line.blocks[0].x == pytest.approx(0, abs=1e-6)
        for one, other in pairwise(line.blocks):
            assert one.x + one.width == pytest.approx(other.x, abs=1e-6)


def test_tools_stand_in_front_and_every_message_says_what_it_is() -> None:
    (line,) = lines(timeline([("system", 50), ("tool", 100)]), rows(head=100), exact=False)
    assert line.blocks == [
        Block(0.0, 0.25, "head", "tools · ≈50 tokens"),
        Block(0.25, 0.25, "head", "message 0 · system · ≈50 tokens · since turn 1"),
        Block(0.5, 0.5, "tool", "message 1 · tool · ≈100 tokens · since turn 1"),
    ]


def test_each_break_is_a_cut_where_it_happened() -> None:
    messages = timeline([("system", 10), ("user", 10), ("assistant", 20), ("tool", 60)])
    drawn = lines(
        messages,
        rows(
            Break("message", 2, "message_changed"),
            Break("tools", 1, "tools_reordered"),
            Break("message", 99, "messages_removed"),
            Break("message", 2, "message_changed"),
        ),
        exact=True,
    )
    (line,) = drawn
    assert [(cut.x, cut.label) for cut in line.cuts] == [
        (0.0, "turn 3"),
        (0.2, "turns 2, 5"),
        (1.0, "turn 4"),
    ]
    assert line.cuts[1].title == "cut by message 2: message changed (turn 2, 5)"


def test_cuts_at_one_place_are_one_with_a_count() -> None:
    found = rows(*[Break("message", 1, "messages_removed")] * 40)
    (line,) = lines(timeline([("user", 10), ("tool", 10)]), found, exact=True)
    (cut,) = line.cuts
    assert cut.label == "40 breaks"
    assert cut.title == "cut by message 1: messages removed (turn 2, 3, 4 and 37 more)"


def test_labels_do_not_stand_on_each_other() -> None:
    found = rows(*[Break("message", n, "message_changed") for n in range(40)])
    (line,) = lines(timeline([("user", 10)] * 40), found, exact=True)
    assert len(line.cuts) == 40
    labelled = [cut.x for cut in line.cuts if cut.label]
    assert 5 < len(labelled) < 20
    assert all(b - a > 0.05 for a, b in pairwise(labelled))


@pytest.mark.parametrize(
    ("each", "said"),
    [
        (Break("options", 0, "options_changed"), "options changed"),
        (Break("tools", 3, "schema_key_order"), "tool 3: schema key order"),
        (Break("prompt", 4, "template"), "message 4: rendered otherwise by the template"),
    ],
)
def test_a_break_in_words(each: Break, said: str) -> None:
    assert broken(each) == said
