"""Does the report read well on GitHub, and can no text of a prompt leave its place?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from kvagent.audit.report.markdown import LONGEST, write
from kvagent.audit.rule import Contrast
from kvagent.audit.session import Gate, Report, Session
from kvagent.audit.turns import Totals
from tests.audit.report.reports import (
    CLOCK,
    DEAD_TOOL,
    REPORTS,
    everything,
    finding,
    session,
    spot,
)

HOSTILE = (
    "```\n# out\n~~~~\n````\n<script>x</script> @everyone #1 http://evil.example [a](b) | x |\n"
    "\r\n- item\u2028![i](j) `code` **bold** &amp; \x1b[2J"
)


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The fenced blocks by CommonMark's rules, and with "" what stands outside of them."""
    fence, language, inside, outside = "", "", list[str](), list[str]()
    for line in text.split("\n"):
        opened = re.match(r" {0,3}(`{3,})([^`]*)$", line)
        if fence:
            if re.fullmatch(rf" {{0,3}}`{{{len(fence)},}}[ \t]*", line):
                yield language, inside
                fence, inside = "", []
            else:
                inside.append(line)
        elif opened is not None:
            fence, language = opened[1], opened[2]
        else:
            outside.append(line)
    assert not fence, "a block is not closed"
    yield "", outside


def test_the_report_as_it_is_read() -> None:
    findings = [finding(CLOCK, spot(2), spot(3, contrast=None))]
    sums = Totals(3, 600, 288, 84, 300)
    made = write(Report([session("a.jsonl", totals=sums, findings=findings)]))
    assert (
        made
        == """## kvagent audit

| Session | Requests | Prompt tokens | Hit rate | Reported | Wasted | Findings |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
| `a.jsonl` | 3 | ≈600 | ≈48.0% | – | ≈84 | 1 error |

### `a.jsonl`

OpenAI chat, 1 conversation, for vLLM, blocks of 16 tokens, a cache without end. Tokens are \
estimates (cl100k).

#### KVA101 clock-in-head (error)

The system prompt tells the time, which is another in every request. Seen 2 times, ≈168 tokens \
computed once more.

At line 2, turn 2 · message 0 · content · character 31

```diff
- It is 12:30:01 now.
+ It is 12:30:09 now.
               ^
```

**Fix:** Say the time in the newest message.

```python
messages.append({"role": "user", "content": f"Now: {now}"})
```
"""
    )


def test_several_sessions_stand_in_one_table_the_worst_first() -> None:
    note = finding(DEAD_TOOL, tokens=0)
    quiet = session("quiet.jsonl", totals=Totals(2, 300, 96, 0, 200), findings=[note])
    loud = session("loud.jsonl", totals=Totals(2, 300, 0, 200, 200), findings=[finding()])
    text = write(Report([quiet, loud]))
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[2:]] == [
        "| `loud.jsonl`",
        "| `quiet.jsonl`",
        "| **All**",
    ]
    assert rows[-1] == "| **All** | 4 | ≈600 | ≈16.0% | – | ≈200 | 1 error, 1 note |"
    assert text.index("### `loud.jsonl`") < text.index("### `quiet.jsonl`")


def test_a_fix_is_told_once() -> None:
    findings = [finding(), finding(), finding(fix="Do something else.")]
    text = write(Report([session(findings=findings)]))
    assert text.count("**Fix:** Say the time in the newest message.") == 1
    assert text.count("**Fix:** as told above for KVA101.") == 1
    assert text.count("**Fix:** Do something else.") == 1


def test_a_session_without_faults_has_its_line_in_the_table() -> None:
    text = write(Report([session("a.jsonl"), session("b.jsonl", findings=[finding()])]))
    assert "| `a.jsonl` |" in text
    assert "### `a.jsonl`" not in text
    assert "### `a.jsonl`" in write(Report([session("a.jsonl")]))


def test_everything_is_told() -> None:
    text = write(everything())
    for said in (
        "- **Failed**: min-hit-rate. The hit rate is 48.0 %, below 90 %.",
        "- Holds: fail-on error in `trace.jsonl`.",
        "- **Not read**: notes.txt is no transcript",
        "| Hit rate | ≈48.0% | ≈80.0% |",
        "| KV cache at most | ≈1.00 MiB | ≈512 KiB |",
        "2 requests edited (the default policy). Compaction is left out.",
        "≈512 KiB of KV cache",
        "- The transcript does not have the tools: their tokens are left out.",
        "is not JSON: unexpected end",
    ):
        assert said in text, said
    assert text.index("Failed") < text.index("Holds")


def test_no_text_leaves_its_place() -> None:
    texts = Contrast(HOSTILE + "1", HOSTILE + "2", len(HOSTILE))
    made = finding(
        CLOCK,
        spot(contrast=texts, field=HOSTILE),
        finding().spots[0],
        said=HOSTILE,
        fix=HOSTILE,
        example=HOSTILE,
    )
    shown = finding(DEAD_TOOL, spot(contrast=None, excerpt=HOSTILE), said="x")
    gate = Gate(HOSTILE, failed=True, said=HOSTILE, file=HOSTILE)
    text = write(Report([session(HOSTILE, findings=[made, shown], notes=[HOSTILE])], gates=[gate]))
    assert "\x1b" not in text.replace(HOSTILE, "")
    found = list(blocks(text))
    assert [language for language, _ in found] == ["diff", "python", "text", ""]
    assert all(line[:2] in ("- ", "+ ", "  ") for line in found[0][1])
    assert len(found[0][1]) == 3
    outside = [line for line in found[-1][1] if "`" not in line.replace("\\`", "")]
    assert sum(line.startswith("#") for line in found[-1][1]) == 4
    for line in outside:
        assert not re.search(r"(?<!\\)[<>\[\]]", line), line
        assert not re.search(r"@\w|(?<!#)#\d|https?:", line), line
    rows = [line for line in found[-1][1] if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}


@given(report=REPORTS)
@settings(max_examples=60, deadline=None)
def test_any_report_has_its_form(report: Report) -> None:
    text = write(report)
    assert text.startswith("## kvagent audit\n")
    assert text == write(report)
    assert len(text) <= LONGEST
    for language, lines in blocks(text):
        if language == "diff":
            assert len(lines) == 3
        if not language:
            headings = [line for line in lines if line.startswith("#")]
            many = len(report.sessions) > 1
            told = [s for s in report.sessions if not many or s.findings or s.unreadable]
            assert len(headings) == 1 + len(told) + sum(len(each.findings) for each in told)


@pytest.mark.parametrize("sessions", [1, 300])
def test_it_is_never_longer_than_a_comment_may_be(sessions: int) -> None:
    many = [finding(CLOCK, spot(turn), fix="Do it. " * 20) for turn in range(1, 400)]
    made = [session(f"{number}.jsonl", findings=many) for number in range(sessions)]
    text = write(Report(made))
    assert LONGEST - 3_000 < len(text) <= LONGEST
    assert text.endswith(
        "*The rest would make this too long; the other forms of the report have it.*\n"
    )
    list(blocks(text))


def test_a_table_that_is_too_long_shows_the_worst() -> None:
    made = [
        session(f"{'x' * 60}{number}.jsonl", totals=Totals(1, 9, 0, number, 9))
        for number in range(2_000)
    ]
    text = write(Report(made))
    assert len(text) <= LONGEST
    assert "1999.jsonl" in text
    assert re.search(r"\| \*and 1,[\d]{3} more\* \|", text)
    assert "| **All** | 2,000 |" in text


def test_recorded_sessions_fit(recorded: list[Session]) -> None:
    text = write(Report(recorded))
    assert len(text) <= LONGEST
    assert all(f"`{each.file}`" in text for each in recorded)
