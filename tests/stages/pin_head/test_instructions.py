"""Is a changed instruction followed, and the prefix that it breaks named?"""

from __future__ import annotations

import pytest

from tests.stages.pin_head.heads import LONG, breaks, chat, head_of, holds, newest, system, user
from tests.wire import Wire, kept, say


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Current time: 04:12. Never delete files.", "Current time: 04:13. Always delete files."),
        ("Current time: 04:12 deny access", "Current time: 04:12 grant access"),
        ("Current time: 04:12 DENY", "Current time: 04:12 LET"),
        ("Every run id must be logged.", "Every run id may be logged."),
        ("Current time: 04:12", "Current time: unknown"),
    ],
)
def test_a_changed_instruction_next_to_a_clock_is_followed_and_named(
    before: str, after: str
) -> None:
    wire = chat([[system(f"You help.\n{text}")] for text in (before, after, after)])
    assert breaks(wire) == [("system_changed", 0)]
    seen = head_of(wire, 1) + newest(wire, 1)
    for word in after.split():
        assert word in seen
    assert kept(wire.bodies[1], wire.bodies[2])


def test_what_stays_goes_before_what_changes() -> None:
    heads = [
        [system(f"Plan {number}."), say("developer", "Be brief."), system("Be kind.")]
        for number in (1, 2, 3, 3)
    ]
    wire = chat(heads)
    assert breaks(wire) == [("system_changed", 0), ("system_changed", 0)]
    for request in (1, 2, 3):
        order = [m["content"] for m in wire.bodies[request]["messages"][:3]]
        assert order == ["Be brief.", "Be kind.", f"Plan {min(request + 1, 3)}."]
    assert kept(wire.bodies[2], wire.bodies[3])


@pytest.mark.parametrize(
    ("heads", "index"),
    [
        ((["One."], ["One.", "Two."]), 1),
        ((["One.", "Two."], ["One."]), 1),
        ((["One."], []), 0),
        (([], ["One."]), 0),
    ],
)
def test_a_system_message_more_or_less_is_named(
    heads: tuple[list[str], list[str]], index: int
) -> None:
    wire = chat([[system(text) for text in head] for head in heads])
    assert breaks(wire) == [("system_changed", index)]


def test_a_system_message_in_mid_history_is_a_message_like_others() -> None:
    wire = Wire()
    history = [system("You help."), user("One?")]
    wire.send(history, say("assistant", LONG))
    history += [say("assistant", LONG), system("From now on: Today is Monday."), user("Two?")]
    wire.send(history, say("assistant", "ok"))
    wire.send([*history, say("assistant", "ok"), user("Three?")])
    assert holds(wire)
    assert wire.bodies[-1]["messages"][3] == system("From now on: Today is Monday.")
