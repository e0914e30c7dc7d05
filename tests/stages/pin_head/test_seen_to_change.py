"""Does text that is seen to change stay as it was first sent, and is its new value told?"""

from __future__ import annotations

import pytest

from kvagent import Volatile, volatile
from kvagent.volatile import NOTE, PLACEHOLDER
from tests.stages.pin_head.heads import LONG, breaks, chat, head_of, holds, newest, system, user
from tests.wire import Wire


def test_a_date_that_changes_is_told_although_it_may_be_an_instruction() -> None:
    wire = chat(
        [[system(f"Release date: {date}. Plan for it.")] for date in ("2026-12-01", "2027-01-15")]
    )
    assert holds(wire)
    assert head_of(wire) == "Release date: 2026-12-01. Plan for it."
    assert newest(wire).endswith(f"{NOTE}Release date: 2027-01-15. Plan for it.")
    assert breaks(wire) == []


def test_later_conversations_get_a_placeholder_where_text_was_seen_to_change() -> None:
    wire = chat([[system(f"Release date: {date}.")] for date in ("2026-12-01", "2027-01-15")])
    wire.send([system("Release date: 2028-01-01."), user("Another?")])
    assert head_of(wire) == f"Release date: {PLACEHOLDER}."
    assert newest(wire) == f"Another?\n\n{NOTE}Release date: 2028-01-01."


@pytest.mark.parametrize(
    "head",
    [
        "Session 123e4567-e89b-12d3-a456-42661417400{}",
        "Request id: req-4711-{}",
        "Battery: {} %",
        "Mood: <volatile>{}</volatile>",
        "Built from commit 0a1b2c3d{}",
    ],
)
@pytest.mark.parametrize("text", [LONG, "ok"], ids=["long", "short"])
def test_ids_and_declared_text_stay_once_they_change(head: str, text: str) -> None:
    wire = Wire(volatile=Volatile(patterns=(r"Battery: (?P<value>\d+)",)))
    chat([[system(f"You help.\n{head.format(number)}")] for number in (1, 2, 3, 3)], wire, text)
    assert holds(wire)
    assert breaks(wire) == []
    assert head_of(wire) == f"You help.\n{head.format(1)}"
    assert newest(wire, 1).endswith(NOTE + head.format(2))
    assert newest(wire, 2).endswith(NOTE + head.format(3))
    assert NOTE not in newest(wire, 3)


def test_marked_text_may_be_empty_at_first() -> None:
    heads = [[system(f"Name: {volatile(name)}")] for name in ("", "Ada", "")]
    wire = chat(heads)
    assert holds(wire)
    assert newest(wire, 1).endswith(f"{NOTE}Name: {volatile('Ada')}")
    assert newest(wire, 2).endswith(f"{NOTE}Name: {volatile('')}")
