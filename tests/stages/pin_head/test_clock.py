"""Does a clock get a placeholder at first sight, and its value a note when it changes?"""

from __future__ import annotations

import json

from kvagent.volatile import NOTE, PLACEHOLDER
from tests.stages.pin_head.heads import chat, clock, head_of, holds, newest, system, user
from tests.wire import Wire


def test_a_clock_gets_a_placeholder_at_first_sight_and_its_value_a_note() -> None:
    wire = chat([clock("04:12:30")])
    assert head_of(wire) == f"You help.\nCurrent time: {PLACEHOLDER}\nBe brief."
    assert newest(wire) == f"Question 0?\n\n{NOTE}Current time: 04:12:30"


def test_a_value_is_told_only_when_it_changes() -> None:
    wire = chat([clock(text) for text in ("04:12", "04:12", "04:13", "04:13", "04:12")])
    assert holds(wire)
    notes = [NOTE in message["content"] for message in wire.bodies[-1]["messages"]]
    # The last one ticks back to what was told at first.
    assert [at for at, noted in enumerate(notes) if noted] == [1, 5, 9]
    assert newest(wire).endswith("Current time: 04:12")


def test_conversations_share_one_head() -> None:
    wire = Wire()
    wire.send([*clock("04:12"), user("One?")])
    wire.send([*clock("05:13"), user("Two?")])
    assert head_of(wire, 0) == head_of(wire, 1)
    assert "04:12" not in json.dumps(wire.bodies[1])


def test_of_two_clocks_in_a_line_the_note_tells_both() -> None:
    head = "Today is 2026-11-{}, the time is 04:12:{}."
    wire = chat(
        [[system(head.format(day, second))] for day, second in ((29, 10), (29, 11), (30, 11))]
    )
    assert holds(wire)
    assert head_of(wire) == f"Today is {PLACEHOLDER}, the time is {PLACEHOLDER}."
    assert newest(wire, 1).endswith(NOTE + head.format(29, 11))
    assert newest(wire, 2).endswith(NOTE + head.format(30, 11))


def test_a_value_inside_a_long_line_is_told_with_what_stands_around() -> None:
    line = "Blah blah. " * 100 + "The gate closes at 2026-11-30 {} sharp." + " Blah blah." * 100
    wire = chat([[system(line.format(at))] for at in ("04:12", "04:13")])
    assert holds(wire)
    note = newest(wire).partition(NOTE)[2]
    assert "The gate closes at 2026-11-30 04:13 sharp." in note
    assert len(note) < 300


def test_an_attribution_header_that_changes_is_held() -> None:
    heads = [
        [system(f"x-anthropic-billing-header: cc_version=2.1; cch={number:05x};\nYou help.")]
        for number in range(3)
    ]
    wire = chat(heads, text="ok")
    assert holds(wire)
    assert head_of(wire) == f"x-anthropic-billing-header: {PLACEHOLDER}\nYou help."
    assert "cch=00002;" in newest(wire)
