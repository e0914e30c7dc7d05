"""Does a report fit the terminal, whatever is in it, and say what one wants to know first?"""

from __future__ import annotations

import io
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kvagent.audit.report.screen.contrast import contrasted
from kvagent.audit.report.screen.layout import Layout
from kvagent.audit.report.terminal import show
from kvagent.audit.rule import Contrast
from kvagent.audit.run import audit_file, audit_files
from kvagent.audit.session import Failed, Gate, Report, Result, WhatIf
from kvagent.audit.settings import Settings
from kvagent.audit.transcript import Reported
from kvagent.audit.turns import Totals
from kvagent.prefixcache.seen import common_prefix
from tests.audit.report.reports import (
    CLOCK,
    DEAD_TOOL,
    REPORTS,
    everything,
    finding,
    place,
    row,
    session,
    spot,
)

ENCODINGS = st.sampled_from(["utf-8", "ascii", "latin-1", "cp437"])


class _File(io.StringIO):
    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def told(
    report: Report, width: int = 80, *, details: bool = False, encoding: str = "utf-8"
) -> list[str]:
    file = _File(encoding)
    show(report, Console(file=file, width=width, color_system=None), details=details)
    return file.getvalue().split("\n")[:-1]


def one(**more: object) -> Report:
    return Report([session(**more)])  # type: ignore[arg-type]


def sent(**more: object) -> WhatIf:
    """Two requests through kvagent."""
    sides = Totals(2, 300, 96, 50, 200), Totals(2, 200, 150, 0, 100)
    known = WhatIf("the default policy", *sides, 2, 154, None, None, "", 1, 0, [("pin_head", 2)])
    return replace(known, **more)  # type: ignore[arg-type]


# -- whatever it holds


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


TEXTS = st.text(
    st.sampled_from("ab \n\t\x1b\u202e界界한e\u0301\U0001f600 ") | st.characters(codec="utf-8"),
    max_size=200,
)


@given(TEXTS, TEXTS, TEXTS, st.integers(24, 120), st.integers(0, 4), ENCODINGS)
def test_the_mark_stands_below_the_first_character_that_differs(
    common: str, before: str, after: str, width: int, indent: int, encoding: str
) -> None:
    texts = common + before, common + after
    at = common_prefix(*texts)
    layout = Layout(Console(file=_File(encoding), width=width, color_system=None))
    lines = contrasted(Contrast(*texts, at), layout, indent=indent)
    plain = [line.plain for line in lines]
    assert len(plain) == 3
    column = len(plain[2]) - 1
    assert plain[2] == " " * column + "^"
    heads = []
    for text, line in zip(texts, plain[:2], strict=True):
        assert cell_len(line) <= width
        if not text:
            assert line.endswith("(nothing)")
            continue
        head = line
        while head and cell_len(head) > column:
            head = head[:-1]
        assert cell_len(head) == column
        heads.append(head[indent + len("before  ") :])
        rest = line[len(head) :]
        if len(text) > at and text[at].isascii() and text[at].isprintable():
            assert rest[0] == (text[at] if text[at:].strip(" ") else layout.letters("␣"))
        if len(text) == at:
            assert rest.strip() == ""
    assert len(set(heads)) <= 1


def test_a_wide_character_moves_the_mark_by_two() -> None:
    layout = Layout(Console(file=_File("utf-8"), width=80, color_system=None))
    lines = contrasted(Contrast("界\t1", "界\t2", 2), layout, indent=2)
    assert [line.plain for line in lines] == [
        "  before  界⇥1",
        "  now     界⇥2",
        "  " + " " * len("before  ") + "   ^",
    ]


def test_a_blank_at_the_end_is_seen() -> None:
    layout = Layout(Console(file=_File("utf-8"), width=80, color_system=None))
    assert [line.plain for line in contrasted(Contrast("end", "end ", 3), layout)] == [
        "before  end",
        "now     end␣",
        "           ^",
    ]


# -- a summary


def test_a_summary_says_all_that_matters_in_one_screen() -> None:
    report = one(
        findings=[finding(CLOCK, spot(2), spot(3), tokens=168)],
        totals=Totals(2, 300, 96, 50, 200, exact=False),
        rows=[row(1), row(2, reported=Reported(200, 64))],
        what_if=sent(),
        notes=["The transcript lacks the tools. More of it is not said here."],
    )
    assert told(report) == [
        "logs/monday run.jsonl",
        "OpenAI chat: 2 requests in 1 conversation",
        "                  as recorded  through kvagent",
        "  hit rate             ≈32.0%           ≈75.0%",
        "  prefill tokens         ≈204              ≈50  −75%",
        "  wasted prefill          ≈50                0",
        "  longest prompt         ≈200             ≈100  −50%",
        "  prefix breaks             0                0",
        "  Tokens are estimates by cl100k. Predicted for vLLM, blocks of 16 tokens, a",
        "  cache without end.",
        "  Through kvagent (the default policy): 2 requests edited: pin_head 2.",
        "  · The transcript lacks the tools.",
        "",
        "1 error",
        "✗ KVA101 clock-in-head · 2 times · ≈168 tokens of prefill",
        "  The system prompt tells the time, which is another in every request. Line 2,",
        "  turn 2 · message 0 · content · character 31.",
        "  → Say the time in the newest message.",
        "",
        "More: --details · -o report.html · kvagent explain KVA101",
    ]


def test_nothing_was_found() -> None:
    lines = told(one())
    assert "✓ Nothing was found." in lines
    assert "through kvagent" not in "\n".join(lines)
    assert lines[-1] == "More: --details · -o report.html"


def test_in_letters_that_an_old_terminal_has() -> None:
    report = one(findings=[finding()], what_if=sent())
    lines = told(report, encoding="ascii")
    assert "x KVA101 clock-in-head | once | ~84 tokens of prefill" in lines
    assert "  -> Say the time in the newest message." in lines
    assert all(line.isascii() for line in lines)
    assert "?" not in "".join(lines)


def test_the_models_own_tokens_and_bytes() -> None:
    report = one(
        exact=True,
        counter="Qwen2.5",
        rows=[row(1), row(2, kv_bytes=3 << 29)],
        totals=Totals(2, 300, 96, 0, 200, 2, 300, 210),
        what_if=sent(kv_peak_before=3 << 29, kv_peak_after=3 << 28),
    )
    text = "\n".join(told(report))
    assert "≈" not in text
    text = " ".join(text.split())
    assert "KV cache at most 1.50 GiB 768 MiB −50%" in text
    assert "hit rate, reported 70.0%" in text
    assert "Tokens are the model's own (Qwen2.5)." in text


def test_requests_that_are_refused_and_what_if_without_figures() -> None:
    refused = [row(1), row(2, predicted_tokens=None)]
    assert "  refused requests       1" in told(one(rows=refused))
    text = told(one(what_if=sent(after=Totals(), left_out="There is no request.")))
    assert "  Through kvagent: no figures. There is no request." in text
    assert not any("as recorded" in line for line in text)


def test_a_trace_without_texts() -> None:
    trace = everything().sessions[1]
    lines = told(Report([trace]))
    assert lines[1:5] == [
        "OpenAI chat: 1 request in 1 conversation",
        "  hit rate        51.2%",
        "  prefill tokens    488",
        "  longest prompt  1,000",
    ]
    assert any("blocks of 512 tokens" in line for line in lines)
    assert "Turns" in told(Report([trace]), details=True)


def test_many_rules_still_fit_one_screen() -> None:
    found = [
        finding(replace(CLOCK, code=f"KVA1{at:02}"), tokens=1_000 - at, fix="Do so. " * 20)
        for at in range(30)
    ]
    lines = told(
        one(findings=found, notes=["A note that is rather long. " * 9] * 9, what_if=sent())
    )
    assert len(lines) <= 45
    assert "KVA100" in "\n".join(lines)
    assert any(line.startswith("… and 27 more findings: KVA103, ") for line in lines)


def test_findings_of_one_rule_are_told_together() -> None:
    found = [finding(CLOCK, spot(at), tokens=at) for at in (3, 9, 5)]
    text = "\n".join(told(one(findings=found)))
    assert text.count("KVA101 clock-in-head") == 1
    assert "3 times · ≈17 tokens" in text
    assert "2 findings more like it." in text
    assert "turn 9" in text
    assert "3 errors" in text


def test_conditions_and_what_was_not_read() -> None:
    gates = [
        Gate("min-hit-rate", failed=True, said="It is 48.0%, below 90%.", file="a.jsonl"),
        Gate("fail-on error", failed=False, said="There is none."),
    ]
    report = Report([session()], [Failed("x", "x is no transcript.")], gates, redacted=True)
    lines = told(report)
    assert "✗ min-hit-rate, a.jsonl: It is 48.0%, below 90%." in lines
    assert "✓ fail-on error: There is none." in lines
    assert "✗ x is no transcript." in lines
    assert any("stand-ins" in line for line in lines)


def test_colours_for_terminals_only() -> None:
    report = one(findings=[finding()])
    outputs = {}
    for name, console in {
        "file": Console(file=_File("utf-8")),
        "terminal": Console(file=_File("utf-8"), force_terminal=True, color_system="standard"),
        "no colour": Console(
            file=_File("utf-8"), force_terminal=True, color_system="standard", no_color=True
        ),
    }.items():
        show(report, console)
        outputs[name] = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\x1b" not in outputs["file"]
    assert "\x1b[1;31m" in outputs["terminal"]
    assert "31m" not in outputs["no colour"]


# -- on a narrow terminal


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


# -- in full


def test_everything_is_told_in_full() -> None:
    lines = told(everything(), details=True)
    text = "\n".join(lines)
    for said in (
        "2 sessions",
        "Line 2, turn 2 · message 0 · content · character 31: ≈84 tokens",
        "    before  It is 12:30:01 now.↵Be",
        "    now     It is 12:30:09 now.↵Be",
        " " * len("    before  It is 12:30:0") + "^",
        "Also line 3 turn 3 message 0",
        '    messages.append({"role": "user", "content": f"Now: {now}"})',
        "The tool `fetch` is never called.",
        '    {"type": "function"',
        "logs/monday run.jsonl:9 is not JSON: unexpected end",
        "The transcript does not have the tools: their tokens are left out.",
        "512 KiB of KV cache",
        "Tool results, the largest first",
        "message 0: system changed",
        "✗ min-hit-rate: The hit rate is 48.0 %, below 90 %.",
        "notes.txt is no transcript: it looks like text.",
    ):
        assert said in text, said


def test_hundreds_of_turns_are_thinned() -> None:
    rows = [row(at) for at in range(1, 500)]
    rows[300] = row(301, wasted_tokens=7, error="too many requests")
    lines = told(one(rows=rows), details=True)
    (title,) = (at for at, line in enumerate(lines) if line.startswith("Turns, "))
    assert lines[title].endswith(" of 499, in estimated tokens")
    table = lines[title + 1 :]
    turns = [line.split()[0] for line in table if line[:6].strip().isdigit()]
    assert {"1", "301", "499"} <= set(turns)
    assert len(turns) <= 60
    left_out = [line.split() for line in table if line.strip().startswith("…")]
    assert len(turns) + sum(int(words[1]) for words in left_out) == 499
    assert any("too many requests" in line for line in table)


def test_a_place_behind_another_fault_has_no_cost_of_its_own() -> None:
    found = finding(CLOCK, spot(tokens=0, behind="KVA103"), tokens=0)
    text = " ".join(" ".join(told(one(findings=[found]), details=True)).split())
    assert "behind KVA103, which has the cost" in text


# -- many


def test_many_sessions_the_worst_first() -> None:
    found = [finding(DEAD_TOOL, spot(tokens=5))]
    many = [session(f"logs/{at:02}.jsonl", findings=found) for at in range(40)]
    many[17].findings = [finding(CLOCK, spot(place=place(4), tokens=9_000))]
    many[17].totals.wasted_tokens = 9_000
    many[17].file = "logs/monday run.jsonl"
    lines = told(Report(many))
    assert len(lines) <= 45
    assert lines[0] == "40 sessions in logs/"
    assert lines[2].split() == ["monday", "run.jsonl", "2", "≈32.0%", "–", "≈9.00", "k", "1✗"]
    assert any(line.startswith("… 30 more") for line in lines)
    assert next(line for line in lines if line.startswith("all ")).endswith("1✗ 39·")
    text = " ".join(" ".join(lines).split())
    assert "monday run.jsonl, line 4, turn 2" in text
    assert "39 times · ≈195 tokens in the prompt · 39 sessions" in text
    assert "prompt" in told(Report(many), 120)[1].split()
    full = told(Report(many), details=True)
    assert sum(line.startswith("logs/") for line in full) == 40


def test_many_sessions_through_kvagent() -> None:
    report = Report([session("a", what_if=sent()), session("b", what_if=sent()), session("c")])
    text = " ".join("\n".join(told(report)).split())
    assert (
        "Through kvagent (2 sessions): prefill 408 → 100 tokens, hit rate 32.0% → 75.0%, "
        "longest prompt 200 → 100, prefix breaks 2 → 0." in text
    )


def test_long_names_lose_their_middle() -> None:
    name = "a_rather_long_folder/" * 8 + "the_last_part.jsonl"
    for report in (Report([session(name)]), Report([session(name), session("x/" + name)])):
        lines = told(report)
        assert any("…" in line and "last_part.jsonl" in line for line in lines)


# -- real ones


@pytest.mark.parametrize(
    "name",
    [
        "cases/requests.jsonl",
        "cases/requests_clean.jsonl",
        "data/claudecode_3fe1b6bc.jsonl",
        "data/tau_airline_12.json",
        "data/weka/trace_0107.json",
    ],
)
def test_a_real_session_fits_one_screen(name: str, shared: Path) -> None:
    report = Report([audit_file(shared / name, Settings(what_if=False))])
    for width in (80, 120):
        lines = told(report, width)
        assert len(lines) <= 40
        assert all(cell_len(line) <= width for line in lines)


def test_a_real_folder_fits_one_screen(shared: Path) -> None:
    report = audit_files([shared / "data" / "weka", shared / "cases"], Settings(what_if=False))
    assert len(told(report)) <= 45
