"""Does every line fit the terminal and do nothing to it, whatever the report holds?"""

from __future__ import annotations

import unicodedata

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from kvagent.audit.rule import Contrast
from kvagent.audit.session import Report, Result
from tests.audit.report.reports import CLOCK, REPORTS, finding, place, row, spot
from tests.audit.report.terminal.telling import ENCODINGS, one, told


# To make a whole report smaller takes minutes and teaches little.
@settings(deadline=None, max_examples=60, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(REPORTS, st.integers(20, 130), st.booleans(), ENCODINGS)
def test_no_line_is_wider_and_no_control_reaches_the_terminal(
    report: Report, width: int, details: bool, encoding: str
) -> None:
    lines = told(report, width, details=details, encoding=encoding)
    assert lines
    for line in lines:
        assert cell_len(line) <= width
        assert line == line.rstrip()
        line.encode(encoding)
        assert not {"Cc", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, line))
        assert not set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200e\u200f\u200b") & set(line)


@settings(deadline=None)
@given(st.sampled_from(["one\x1b[2Jtwo", "\u202eevil", "a\rb", "\x9b31m", "tab\tbed", "\x07"]))
def test_hostile_texts_are_seen_and_do_nothing(text: str) -> None:
    hostile = finding(
        CLOCK,
        spot(contrast=Contrast(text + "1", text + "2", len(text)), field=text),
        said=text,
        fix=text,
        example=text,
    )
    report = one(
        file=f"{text}.jsonl",
        findings=[hostile],
        notes=[text],
        results=[Result(place(), 0, 2, 3, text, 9, 9)],
        rows=[row(1), row(2, error=text, fault=text)],
    )
    for details in (False, True):
        shown = "\n".join(told(report, details=details))
        assert not {"\x1b", "\r", "\x9b", "\x07", "\t", "\u202e"} & set(shown)
