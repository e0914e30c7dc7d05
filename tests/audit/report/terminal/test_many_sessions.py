"""Are many sessions told of with the worst first, and by names that can be told apart?"""

from __future__ import annotations

from kvagent.audit.session import Report
from tests.audit.report.reports import CLOCK, DEAD_TOOL, finding, place, session, spot
from tests.audit.report.terminal.telling import sent, told


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
