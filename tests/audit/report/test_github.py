"""Does GitHub's runner read every annotation as it was meant, and never one that was not?"""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings

from kvagent.audit.redact import redacted
from kvagent.audit.report.github import write
from kvagent.audit.rule import Contrast
from kvagent.audit.session import Failed, Gate, Report
from kvagent.audit.transcript import Place
from tests.audit.report.reports import (
    CLOCK,
    DEAD_TOOL,
    REPORTS,
    everything,
    finding,
    session,
    spot,
)

# As the runner takes a line apart.
COMMAND = re.compile(r"::(?P<command>\w+)(?: (?P<properties>.*?))?::(?P<text>.*)", re.DOTALL)


def unescaped(text: str, *, is_property: bool = False) -> str:
    """As the runner does: the percent sign comes last."""
    if is_property:
        text = text.replace("%3A", ":").replace("%2C", ",")
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def commands(written: str) -> list[tuple[str, dict[str, str], str]]:
    """The commands among the lines, as the runner understands them."""
    found = []
    for line in written.split("\n"):
        if (match := COMMAND.fullmatch(line)) is not None:
            pairs = [each.split("=", 1) for each in (match["properties"] or "").split(",")]
            properties = {key: unescaped(value, is_property=True) for key, value in pairs}
            found.append((match["command"], properties, unescaped(match["text"])))
    return found


def test_a_finding_stands_at_its_line_with_both_texts_and_the_fix() -> None:
    (command,) = commands(write(Report([session(findings=[finding()])])))
    kind, properties, text = command
    assert kind == "error"
    assert properties == {
        "file": "logs/monday run.jsonl",
        "line": "2",
        "title": "KVA101 clock-in-head",
    }
    assert text.split("\n") == [
        f"{finding().said} Seen 1 time, ≈84 tokens computed once more.",
        "At turn 2 · message 0 · content · character 31.",
        "Before: It is 12:30:01 now.",
        "After: It is 12:30:09 now.",
        "Fix: Say the time in the newest message.",
    ]


def test_what_was_to_hold_comes_first_and_what_holds_is_not_told() -> None:
    told = commands(write(everything()))
    assert [kind for kind, _, _ in told] == ["error", "error", "error", "notice"]
    assert [properties.get("file") for _, properties, _ in told[:2]] == [None, "notes.txt"]
    assert told[0][1]["title"] == "kvagent audit: min-hit-rate"


def test_no_more_than_github_shows() -> None:
    many = [finding(CLOCK, spot(turn)) for turn in range(1, 15)]
    notes = [finding(DEAD_TOOL, spot(turn)) for turn in range(1, 13)]
    gate = Gate("fail-on error", failed=True, said="There are errors.")
    written = write(Report([session(findings=many + notes)], gates=[gate]))
    assert Counter(kind for kind, _, _ in commands(written)) == {"error": 10, "notice": 10}
    assert commands(written)[0][2] == "There are errors."
    assert written.endswith(
        "26 findings in 1 session; 7 annotations more than GitHub shows are left out.\n"
    )


def test_why_a_gate_failed_comes_before_what_was_known_and_is_worse() -> None:
    known = session("old.jsonl", findings=[finding(CLOCK, spot(turn)) for turn in range(1, 15)])
    new = finding(CLOCK, spot(place=Place("new.jsonl", 7)), said="A clock that is new.")
    worse = session("new.jsonl", findings=[finding(CLOCK, spot(99)), new])
    worse.totals.wasted_tokens, known.totals.wasted_tokens = 1, 10_000
    gate = Gate("baseline", failed=True, said="1 finding, new.", file="new.jsonl", findings=[new])
    report = Report([known, worse], gates=[gate])
    for told in (report, redacted(report, len)):
        found = [properties for _, properties, _ in commands(write(told))]
        assert [each.get("line") for each in found[:2]] == [None, "7"]
        assert [each["file"] for each in found] == ["new.jsonl"] * 2 + ["logs/monday run.jsonl"] * 8


def test_a_text_cannot_become_a_command() -> None:
    hostile = "x\n::error::owned\r\n::add-mask::a%0A::set-env name=a::b\u2028\x1b]0;t\x07"
    texts = Contrast(hostile + "1", hostile + "2", len(hostile))
    made = finding(CLOCK, spot(contrast=texts), said=hostile)
    report = Report(
        [session("a,b:c%\n::error::.json", findings=[made])], [Failed("f\n::x::y", hostile)]
    )
    written = write(report)
    assert "\x1b" not in written
    assert "\r" not in written
    assert [kind for kind, _, _ in commands(written)] == ["error", "error"]
    assert commands(written)[0][1]["file"] == "f\n::x::y"
    assert len(written.split("\n")) == 4  # two commands, the sum, the end


@given(report=REPORTS)
@settings(max_examples=60, deadline=None)
def test_each_line_is_one_command_but_for_the_last(report: Report) -> None:
    *lines, last, end = write(report).split("\n")
    assert end == ""
    assert not last.startswith("::")
    assert all(COMMAND.fullmatch(line) for line in lines)
    for kind, properties, text in commands("\n".join(lines)):
        assert kind in ("error", "warning", "notice")
        assert properties.keys() <= {"file", "line", "title"}
        assert 0 < len(properties["title"]) <= 255
        assert len(text) < 60_000


@pytest.mark.parametrize("file", ["-", "caf\udce9.json"])
def test_a_file_that_has_no_name_to_show(file: str) -> None:
    made = finding(CLOCK, spot(place=spot().place.__class__(file, 3)))
    ((_, properties, _),) = commands(write(Report([session(file, findings=[made])])))
    assert properties.get("file") == (None if file == "-" else "caf?.json")
    write(Report([session(file, findings=[made])])).encode()
