"""Is it told what became of each message that was sent before?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.changes.messages import Change, changes
from kvagent.audit.sent import Known, Reader
from tests.audit.logs import Message, reply, user

LONG = [reply(f"This is answer number {at} to what was asked.") for at in range(8)]


def known(messages: list[Message]) -> list[Known]:
    reader = Reader()
    return [reader.known(message) for message in messages]


def between(old: list[Message], new: list[Message]) -> list[tuple[str, range, range]]:
    return [(each.what, each.old, each.new) for each in changes(known(old), known(new))]


@given(st.integers(0, 7), st.integers(1, 3))
def test_what_was_taken_out(at: int, count: int) -> None:
    new = [*LONG[:at], *LONG[at + count :]]
    behind = at + count < len(LONG)
    assert between(LONG, new) == (
        [("removed", range(at, at + count), range(at, at))] if behind else []
    )


@given(st.integers(0, 8))
def test_what_was_put_in(at: int) -> None:
    new = [*LONG[:at], user("By the way"), *LONG[at:]]
    behind = at < len(LONG)
    assert between(LONG, new) == (
        [("inserted", range(at, at), range(at, at + 1))] if behind else []
    )


@given(st.integers(0, 6))
def test_what_was_edited(at: int) -> None:
    new = [*LONG[:at], reply("Something else."), *LONG[at + 1 :]]
    assert between(LONG, new) == [("edited", range(at, at + 1), range(at, at + 1))]


@given(st.lists(st.sampled_from([*LONG[:3], user("go on"), user("yes")]), max_size=9))
def test_what_only_grew_has_no_change(messages: list[Message]) -> None:
    assert between(messages, [*messages, *LONG]) == []
    assert between([*messages, *LONG], messages) == []


MESSAGES = st.lists(
    st.sampled_from([*LONG[:4], user("go on"), user("yes"), user("a longer question " * 9)]),
    max_size=9,
)


@given(MESSAGES, MESSAGES)
def test_any_two_lists(old: list[Message], new: list[Message]) -> None:
    """Changes stand in order and within both lists, and nothing is told twice."""
    last = Change("edited", range(0), range(0))
    for change in changes(known(old), known(new)):
        assert last.old.stop <= change.old.start <= change.old.stop <= len(old)
        assert last.new.stop <= change.new.start <= change.new.stop <= len(new)
        assert len(change.old) + len(change.new) > 0
        last = change
