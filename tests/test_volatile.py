"""Which text of a head is taken for volatile, and which must never be?"""

from __future__ import annotations

import re

import pytest

from kvagent import volatile
from kvagent.volatile import MARK_CLOSE, MARK_OPEN, PLACEHOLDER, Reader


def read(text: str, *patterns: str) -> str:
    """A line with its volatile text in angle quotes, «so» where it is so at first sight."""
    line = Reader(patterns).line(text)
    out, at = "", 0
    for span in line.spans:
        left, right = "«»" if span.at_sight else "‹›"
        out += text[at : span.start] + left + text[span.start : span.end] + right
        at = span.end
    return out + text[at:]


CLOCKS = """
Current time: «2026-11-30 04:12:34»
Current time: «2026-11-30T04:12:34Z»
Current time: «2026-11-30T04:12:34.123456+00:00»
Current time: «2026-11-30 04:12:34,123»
Current time: «2026-11-30 04:12:34 +0100»
Current time: «2026-11-30 04:12:34 UTC+2» in summer
Current time: «2026-11-30 04:12:34 (Monday)»
Current time: «Monday, 04:12»
Current time: «4 PM»
Current time: «4:12 p.m.» Be kind.
Current time: «04h12»
Current time in Berlin: «04:12»
Current time (Europe/Berlin): «2026-11-30 04:12:34+01:00»
Current UTC time: «2026-11-30 04:12»
Current date and time: «Monday, November 30, 2026 at 4:12 PM»
Current date & time: «30 November 2026, 16:12»
Current Date/Time: «11/30/2026, 4:12:34 PM»
Current datetime: «Mon Nov 30 04:12:34 UTC 2026»
Current datetime: «Mon Nov 30 04:12:34 2026»
Current date: «Nov 30, 2026»
Current date: «30-Nov-2026 04:12»
Current date: «Monday, 2026-11-30, 04:12:34»
Current local date and time: «2026-11-30 04:12»
Current timestamp: «1796012345.123»
The current date is «30.11.2026»
The current date is «Monday the 30th of November 2026».
The current time is «16:12:34 CEST».
The time is «2026-11-30 04:12». Never delete files.
It is now «Monday, November 30, 2026, 04:12:34 PM UTC»
Today's date is «2026-11-30».
Today’s date: «November 30, 2026»
Today's Date: «2026年11月30日»
Today is «Monday, November 30, 2026».
Today is «Monday, the 30th of November, 2026».
Today is «Monday».
Today: «2026-11-30T04:12:34+05:30»
The date today is «2026-11-30»
Now: «2026-11-30»
System time: «2026/11/30 04:12»
Server time (UTC): «04:12:34»
Local time is «04:12 AM»
Date: «Sunday»
- Date: «2026-11-30»
**Date**: «Mon, 30 Nov 2026 04:12:34 GMT»
Time: «2026-11-30 04:12:34» Europe/Berlin
Timestamp: «1796012345»
timestamp=«1796012345678»
current_date: «2026-11-30»
<current_time>«2026-11-30T04:12:34Z»</current_time>
"current_time": "«2026-11-30 04:12:34»",
Today is «2026-11-30 (Mon)», the time is «04:12:34».
You are Bot. Current time: «04:12:34». Timezone: UTC. Never reveal it.
""".strip().split("\n")

CHANGING = """
x-anthropic-billing-header: «cc_version=2.1; cc_entrypoint=cli; cch=a1b2c;»
Release date: ‹2026-12-01›
Deadline: ‹2026-12-01 12:00›
It is ‹2026-11-30›.
As of ‹2026-11-30 04:12›
[‹2026-11-30 04:12:34›] system ready
当前时间：‹2026-11-30 04:12:34›
今天是‹2026年11月30日›
Session ID: ‹3f2a9c›
Every session id: ‹kitchen›
request_id=‹abcdef›
Working directory: /tmp/‹run-20261130-041234›
Commit ‹3f2a9c1›
Trace ‹123e4567-e89b-12d3-a456-426614174000›
Built at ‹1796012345›
Name: <volatile>‹Grace Hopper›</volatile>
""".strip().split("\n")

INSTRUCTIONS = """
Now is the time to be brief.
Today sat a cat on the mat.
Today may 5 people come.
Every run id must be logged.
Every run id may be logged.
Knowledge cutoff: 2024-06
Version 1.2.3 of 10.0.0.1 at port 8080
Use at most 3 tools; answer in 120 words.
The message id format is free.
A decade has passed.
""".strip().split("\n")


@pytest.mark.parametrize("line", [*CLOCKS, *CHANGING, *INSTRUCTIONS])
def test_what_is_volatile(line: str) -> None:
    assert read(re.sub("[«»‹›]", "", line)) == line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Current time: 12:30 deny access", "Current time: «12:30» deny access"),
        ("Current time: 12:30 STOP everything", "Current time: «12:30» STOP everything"),
        ("Current time: 12:30 EST", "Current time: «12:30 EST»"),
    ],
)
def test_words_next_to_a_clock_are_no_part_of_it(text: str, expected: str) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "## Current Time\n2026-02-07 14:33 (Saturday)\n",
            "Current Time: 2026-02-07 14:33 (Saturday)",
        ),
        ("<current_date>\n2026-02-07\n</current_date>", "current_date: 2026-02-07"),
        ("# Date\n\n- Monday\nBe brief.", "Date: - Monday"),
    ],
)
def test_a_label_may_stand_above_the_clock(text: str, told: str) -> None:
    lines = Reader().lines(text)
    clocks = [line for line in lines if line.spans]
    assert [span.at_sight for line in clocks for span in line.spans] == [True]
    assert clocks[0].note({0}) == told


@pytest.mark.parametrize(
    "text", ["## Dates\n2026-02-07", "Current Time\nNever\n2026-02-07 is past"]
)
def test_other_text_above_is_no_label(text: str) -> None:
    assert not [s for line in Reader().lines(text) for s in line.spans if s.at_sight]


def test_only_the_time_of_day_tells_nothing_of_anybody() -> None:
    line = Reader().line("At 2026-11-30 04:12 born 1980-01-01, session id: s12:30, now 04:12")
    assert [span.private for span in line.spans] == [False, True, True, False]


def test_a_declared_pattern_marks_its_whole_match_or_the_group_value() -> None:
    text = "user=12 plan=gold"
    assert read(text, r"user=\d+ plan=\w+") == "‹user=12 plan=gold›"
    assert read(text, r"user=(?P<value>\d+)") == "user=‹12› plan=gold"
    assert read(text, r"user=(?P<id>\d+) plan=(?P<marked>\w+)") == "‹user=12 plan=gold›"


def test_a_declared_value_may_be_empty() -> None:
    pattern = r"mood: (?P<value>\w*)"
    empty, full = (Reader([pattern]).line(text) for text in ("mood: ", "mood: good"))
    assert empty.values == ("",)
    assert empty.skeleton() == full.skeleton()


def test_a_declared_pattern_goes_before_the_known_ones() -> None:
    assert read("Current time: 12:30 sharp", r"12:30 \w+") == "Current time: ‹12:30 sharp›"


def test_marked_text_is_found_again() -> None:
    assert (
        read(f"You serve {volatile('Ada <3')} today")
        == "You serve <volatile>‹Ada <3›</volatile> today"
    )
    line = Reader().line(f"{volatile('a')} and {volatile('')}")
    assert line.values == ("a", "")


def test_a_mark_that_is_not_closed_marks_nothing() -> None:
    assert read(f"a {MARK_OPEN} b") == "a <volatile> b"
    assert read(f"{MARK_OPEN}a{MARK_OPEN}b{MARK_CLOSE}") == "<volatile>a<volatile>‹b›</volatile>"


def test_marked_text_has_one_line() -> None:
    with pytest.raises(ValueError, match="mark each on its own"):
        volatile("a\nb")


def test_only_a_text_can_be_marked() -> None:
    with pytest.raises(TypeError, match=r"^kvagent.volatile: a text is wanted, not int$"):
        volatile(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "\n", "a\nb\n", "a\r\nb", "\0", "日本\n🙂"])
def test_lines_joined_are_the_text_again(text: str) -> None:
    assert "\n".join(line.text for line in Reader().lines(text)) == text


def test_a_placeholder_stands_for_each_value() -> None:
    line = Reader().line("Today is 2026-11-30, the time is 04:12:34.")
    assert (
        line.replaced({0, 1}, PLACEHOLDER) == f"Today is {PLACEHOLDER}, the time is {PLACEHOLDER}."
    )
    assert line.replaced({1}, PLACEHOLDER) == f"Today is 2026-11-30, the time is {PLACEHOLDER}."
    assert line.replaced(set(), PLACEHOLDER) == line.text


def test_the_skeleton_knows_where_values_stood_and_not_what_they_were() -> None:
    reader = Reader()
    lines = ["At 04:12 go", "At 05:13 go", "At go 04:12", "At 04:12 come"]
    assert len({reader.line(line).skeleton() for line in lines}) == 3


class TestNote:
    def test_a_short_line_is_told_whole(self) -> None:
        text = "  - Current time: 04:12 (never reveal it)  "
        assert Reader().line(text).note({0}) == text.strip()

    def test_of_a_long_line_what_stands_around(self) -> None:
        before, after = "Blah blah blah. " * 40, " Blah blah blah." * 40
        line = Reader().line(f"{before}The current time is 04:12:34 in Rome.{after}")
        told = line.note({0})
        assert "The current time is 04:12:34 in Rome." in told
        assert len(told) < 260
        assert not told.startswith(("lah", "ah", "h"))

    def test_of_a_long_line_without_a_blank(self) -> None:
        line = Reader().line("x" * 500 + "-2026-11-30T04:12:34-" + "y" * 500)
        assert not line.spans
        line = Reader([r"04:12:\d\d"]).line("x" * 500 + "04:12:34" + "y" * 500)
        assert "04:12:34" in line.note({0})

    def test_a_long_value_is_told_whole(self) -> None:
        value = "word " * 200 + "end"
        assert value in Reader().line(f"Mood: {volatile(value)}").note({0})

    def test_two_values_far_apart_are_both_told(self) -> None:
        text = "Today is 2026-11-30. " + "Blah blah. " * 60 + "The time is 04:12:34."
        told = Reader().line(text).note({0, 1})
        assert "Today is 2026-11-30" in told
        assert "04:12:34" in told


def test_a_line_is_read_once() -> None:
    reader = Reader()
    assert reader.line("At 04:12 go") is reader.line("At 04:12 go")


@pytest.mark.parametrize(
    "part",
    ["a", "0a", MARK_OPEN, "12:", "2026-11-30 ", "session id:::", "current ", " ", "today "],
)
def test_long_lines_of_anything_are_read_in_time(part: str) -> None:
    """Nothing is measured: what takes squares of this length would be noticed."""
    text = part * (200_000 // len(part))
    assert Reader().line(text).text == text
