"""Does a report hold no more of a prompt than the lines that differ and the beginnings it shows?"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pytest

from kvagent.audit.analyse import audit
from kvagent.audit.formats import recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.rule import Finding
from kvagent.audit.rules import checks
from kvagent.audit.session import Report, Session
from kvagent.audit.source import source_of
from kvagent.audit.turns import Analysis
from tests.audit.report.forms import FORMS, written

# Of the two sides of a contrast, of a beginning, and of a sentence.
_CONTRAST, _EXCERPT, _SENTENCE = 300, 160, 600

WORD = re.compile(r"w\d{6}w")


def numbered() -> bytes:
    """A log in which no word stands twice but in what is sent again, and much is wrong."""
    numbers = itertools.count()

    def words(count: int) -> str:
        return " ".join(f"w{next(numbers):06}w" for _ in range(count))

    head = words(300), words(300)
    first, long, later = words(200), words(3_000), [words(60) for _ in range(10)]
    tools = [
        {
            "type": "function",
            "function": {"name": f"tool_{number}", "description": words(50)},
        }
        for number in range(4)
    ]
    calls = [{"id": "c", "type": "function", "function": {"name": "tool_0", "arguments": "{}"}}]
    lines = []
    for turn in range(8):
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": f"{head[0]}\nCurrent time: 12:00:0{turn}\n{head[1]}"},
            {"role": "user", "content": first if turn < 5 else words(200)},
            {"role": "assistant", "content": words(5), "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c", "content": long},
            *[{"role": "user", "content": text} for text in later[:turn]],
        ]
        record: dict[str, Any] = {
            "request": {"model": "m", "messages": messages, "tools": tools[turn % 3 :]}
        }
        if turn == 3:
            quoted = f"maximum context length is 9 tokens: {words(5)} {messages!r}"
            record["response"] = {"error": {"message": quoted}}
        lines.append(orjson.dumps(record))
    return b"\n".join(lines)


@pytest.fixture(scope="module")
def report() -> Report:
    contents = Contents.of(source_of("log.jsonl", io.BytesIO(numbered())))
    known = recognise(contents)
    return Report([audit(known.read(contents), "log.jsonl", known, Analysis(), checks())])


def shown(findings: Sequence[Finding]) -> Iterator[tuple[str, int]]:
    """What findings show of texts, and how much that may be."""
    for finding in findings:
        yield finding.said, _SENTENCE
        yield finding.fix, _SENTENCE
        yield finding.about, _SENTENCE
        for spot in finding.spots:
            yield spot.excerpt, _EXCERPT
            if spot.contrast is not None:
                yield spot.contrast.before, _CONTRAST
                yield spot.contrast.after, _CONTRAST


def test_much_is_wrong_with_the_log(report: Report) -> None:
    findings = report.sessions[0].findings
    assert len({finding.rule.code for finding in findings}) >= 4
    assert any(row.error and len(row.error) > 10_000 for row in report.sessions[0].rows)


@pytest.mark.parametrize("form", FORMS)
def test_a_report_has_no_word_that_no_finding_shows(report: Report, form: str) -> None:
    (session,) = report.sessions
    allowed = {word for text, _ in shown(session.findings) for word in WORD.findall(text)}
    errors = {word for row in session.rows for word in WORD.findall((row.error or "")[:500])}
    found = set(WORD.findall(written(report, form)))
    assert found <= allowed | errors
    assert found or form == "terminal"
    assert len(found) < len(set(WORD.findall(numbered().decode()))) / 20


def test_findings_show_little(report: Report, recorded: list[Session]) -> None:
    for session in (*report.sessions, *recorded):
        for text, most in shown(session.findings):
            assert len(text) <= most, text
