"""Is every figure whole on a narrow terminal?"""

from __future__ import annotations

import re

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kvagent.audit.session import Report, Result
from kvagent.audit.transcript import Reported
from kvagent.audit.turns import Totals
from tests.audit.report.reports import finding, place, row, session
from tests.audit.report.terminal.telling import one, sent, told


def test_a_narrow_summary_has_whole_figures() -> None:
    report = one(
        totals=Totals(2, 3_000_000, 960_000, 50_000, 2_000_000, 2, 3_000_000, 900_000),
        rows=[row(1), row(2, kv_bytes=3 << 29)],
        what_if=sent(kv_peak_before=3 << 29, kv_peak_after=3 << 28),
    )
    assert told(report, 40)[3:11] == [
        "                      recorded   kvagent",
        "  hit rate              ≈32.0%    ≈75.0%",
        "  hit rate,              30.0%",
        "  reported",
        "  prefill tokens    ≈2,040,000       ≈50",
        "  wasted prefill       ≈50,000         0",
        "  longest prompt    ≈2,000,000      ≈100",
        "  KV cache at most   ≈1.50 GiB  ≈768 MiB",
    ]


def test_a_narrow_overview_leaves_columns_out() -> None:
    long = session("a_rather_long_name.jsonl", findings=[finding()])
    long.totals = Totals(12, 3_000_000, 960_000, 500_000, 2_000_000, 2, 3_000_000, 900_000)
    report = Report([long, session("b.jsonl")])
    for width, wanted in {
        30: ["", "hit rate", "wasted"],
        40: ["", "hit rate", "wasted", "findings"],
        50: ["", "requests", "hit rate", "wasted", "findings"],
        60: ["", "requests", "hit rate", "reported", "wasted", "findings"],
        100: ["", "requests", "prompt", "hit rate", "reported", "wasted", "findings"],
    }.items():
        head, first = (re.split(r" {2,}", line) for line in told(report, width)[1:3])
        assert head == wanted
        figures = dict(zip(wanted, first, strict=True))
        assert figures[""].endswith("e.jsonl")
        assert (figures["hit rate"], figures["wasted"]) == ("≈32.0%", "≈500 k")
        assert figures.get("findings", "1✗") == "1✗"


def test_what_is_said_of_a_turn_goes_on_below_it() -> None:
    more = {"prompt_tokens": 123_456, "predicted_tokens": 100_000, "wasted_tokens": 98_765}
    rows = [row(at, **more) for at in range(1, 500)]
    rows[300] = row(301, **more, error="There are 12,345 requests and 67 are too many.")
    lines = told(one(rows=rows, conversations=2), 40, details=True)
    at = next(at for at, line in enumerate(lines) if " 301 " in line)
    assert lines[at : at + 3] == [
        "             0   301  123,456  98,765",
        "    error: There are 12,345 requests and",
        "    67 are too many.",
    ]
    assert lines[at + 3] == "             …  11 more"


def test_where_a_result_came_from_goes_on_below() -> None:
    name = "a_tool_with_a_name_of_thirty_c"
    lines = told(one(results=[Result(place(238), 0, 56, 132, name, 12_345, 9)]), 40, details=True)
    at = lines.index("Tool results, the largest first")
    assert lines[at + 1 : at + 4] == [
        "  ≈12,345  a_to…f_thirty_c  line 238,",
        "                            turn 56,",
        "                            message 132",
    ]


AMOUNTS = st.integers(0, 10**9)


@st.composite
def measured(draw: st.DrawFn) -> Report:
    """Sessions with any figures, and words without any."""
    sessions = []
    for name in draw(st.sampled_from([["one"], ["one", "a/rather/long/name/of/another"]])):
        rows = [
            row(
                at,
                prompt_tokens=draw(AMOUNTS),
                growth=draw(AMOUNTS),
                predicted_tokens=draw(st.none() | AMOUNTS),
                wasted_tokens=draw(AMOUNTS),
                kv_bytes=draw(AMOUNTS),
                reported=Reported(draw(AMOUNTS), draw(AMOUNTS)),
                error=draw(st.sampled_from([None, "12,345 too many"])),
            )
            for at in range(1, draw(st.integers(2, 5)))
        ]
        sums = Totals(*draw(st.tuples(*[AMOUNTS] * 8)))
        after = Totals(*draw(st.tuples(*[AMOUNTS] * 5)))
        through = sent(before=sums, after=after, kv_peak_before=1, kv_peak_after=draw(AMOUNTS))
        results = [Result(place(at), 0, at, at, "read", draw(AMOUNTS), 1) for at in (1, 1_234)]
        more = {
            "conversations": draw(st.integers(1, 3)),
            "what_if": draw(st.none() | st.just(through)),
        }
        sessions.append(session(name, totals=sums, rows=rows, results=results, **more))
    return Report(sessions)


@settings(deadline=None, max_examples=60, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(measured(), st.integers(40, 79), st.booleans())
def test_no_figure_is_cut(report: Report, width: int, details: bool) -> None:
    """Those on a narrow terminal are all among those on one that has room for everything."""
    wide, narrow = (
        set(re.findall(r"[^\s;]*\d[^\s;]*", "\n".join(told(report, at, details=details))))
        for at in (120, width)
    )
    # What is said of a turn is cut at the end of its line, on a wide one.
    assert narrow <= wide | {"12,345"}
