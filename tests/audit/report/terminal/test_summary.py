"""Does a summary say what one wants to know first, in one screen?"""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console

from kvagent.audit.report.terminal import show
from kvagent.audit.session import Failed, Gate, Report
from kvagent.audit.transcript import Reported
from kvagent.audit.turns import Totals
from tests.audit.report.reports import CLOCK, everything, finding, row, session, spot
from tests.audit.report.terminal.telling import _File, one, sent, told


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
