"""What became of the messages that were sent before: is it told, and of nothing else?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.history import became, is_same_message, message_text, tells_summary
from kvagent.audit.sent import Known, Reader, Snapshot
from tests.audit.logs import (
    SYSTEM,
    Message,
    call,
    interleaved,
    reply,
    request,
    result,
    session,
    user,
)

FIRST = user("Please look at the files in this folder, one after the other.")
LONG = session("a", 6, 0)[-1]


def sent(messages: list[Message]) -> Snapshot:
    return Reader().read(request(messages))


def known(message: Message) -> Known:
    return Reader().known(message)


@given(interleaved())
def test_a_session_that_only_grows(mixed: list[tuple[int, list[Message]]]) -> None:
    last: dict[int, list[Message]] = {}
    for number, prompt in mixed:
        old = last.get(number)
        if old is not None:
            assert became(sent(old), sent(prompt)) == "grown"
        assert became(sent(prompt), sent(prompt)) == "again"
        last[number] = prompt


@given(st.integers(1, len(LONG) - 3))
def test_a_message_that_was_left_out(at: int) -> None:
    """Behind it an answer comes again, which nobody gives twice."""
    assert became(sent(LONG), sent(LONG[:at] + LONG[at + 1 :])) == "changed"


@given(st.integers(2, len(LONG) - 1))
def test_whoever_goes_back_changed_nothing(length: int) -> None:
    assert became(sent(LONG), sent(LONG[:length])) is None


def test_another_conversation() -> None:
    other = [SYSTEM, user("Who wrote this?"), reply("Nobody knows who wrote that."), user("Oh")]
    assert became(sent(LONG), sent(other)) is None


def test_a_reminder_that_moved() -> None:
    note = "\n<reminder>There are three tasks left in the list of tasks.</reminder>"
    asked = {**FIRST, "content": FIRST["content"] + note}
    later = [SYSTEM, FIRST, reply("I am looking at them now."), user("Go on." + note)]
    assert became(sent([SYSTEM, asked]), sent(later)) == "changed"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Summary of what was done so far: " + "a file was read; " * 12, "compacted"),
        ("Summary of what was done so far: too short", "changed"),
        ("There was a file, and I read it again. " * 8, "changed"),
    ],
)
def test_what_stands_in_the_place_of_messages(text: str, expected: str) -> None:
    assert became(sent(LONG), sent([SYSTEM, user(text), *LONG[-2:]])) == expected


def test_a_summary_is_shorter_than_what_it_stands_for() -> None:
    summary = user("Summary of what was done so far: " + "a file was read; " * 2_000)
    assert became(sent(LONG), sent([SYSTEM, summary])) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Context Summary\nThe files were read.", True),
        ("This session is continued from a previous one.", True),
        ("Here is the conversation so far.", True),
        ("Please write a summary and compact the tables.", False),
        ("", False),
    ],
)
def test_a_text_that_says_it_is_a_summary(text: str, expected: bool) -> None:
    assert tells_summary(text) is expected


def test_one_message_with_something_in_it_changed() -> None:
    stub = result("[removed]", "call_1")
    assert is_same_message(known(result("lines\n" * 50, "call_1")), known(stub))
    assert not is_same_message(known(result("lines\n" * 50, "call_2")), known(stub))
    clock = "It is {} o'clock, and all is well in the house."
    assert is_same_message(known(user(clock.format(9))), known(user(clock.format(10))))
    assert not is_same_message(known(user(clock.format(9))), known(reply(clock.format(9))))
    assert not is_same_message(known(user("yes, do")), known(user("yes, do")))


def test_what_a_message_says() -> None:
    assert message_text(known(user("hi"))) == "hi"
    assert message_text(known(call("read", "1", "{}"))) == ""
