"""Does the status say whether a gate failed?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.audit.auditing import log, refused, report, run


def test_without_a_gate_findings_are_no_failure(folder: Path) -> None:
    assert run("clock.jsonl").exit_code == 0


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        (["--fail-on", "error"], 1),
        (["--fail-on", "KVA3,KVA101"], 1),
        (["--fail-on", "KVA3", "--fail-on", "clock-in-head"], 1),
        (["--fail-on", "KVA3"], 0),
        (["--min-hit-rate", "50%"], 1),
        (["--min-hit-rate", "0"], 0),
        (["--max-prompt-tokens", "100"], 1),
        (["--max-prompt-tokens", "100000"], 0),
        (["--fail-on", "error", "--ignore", "KVA1"], 0),
        (["--fail-on", "error", "--select", "KVA2,KVA101"], 1),
    ],
)
def test_gates(folder: Path, gate: list[str], status: int) -> None:
    told = report("clock.jsonl", *gate, status=status)
    assert any(each["failed"] for each in told["gates"]) == bool(status)
    result = run("clock.jsonl", *gate)
    assert result.exit_code == status


def test_a_gate_is_told_where_the_report_goes_to_a_file(folder: Path) -> None:
    result = run("clock.jsonl", "--fail-on", "error", "-o", "report.json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("kvagent audit: fail-on error: ")
    assert json.loads((folder / "report.json").read_bytes())["gates"][0]["failed"]


def test_what_could_not_be_read_goes_before_a_gate(folder: Path) -> None:
    assert run("clock.jsonl", "none.jsonl", "--fail-on", "error").exit_code == 2


def test_a_baseline_lets_only_what_got_worse_fail(folder: Path) -> None:
    gate = ["--fail-on", "error", "--min-hit-rate", "90%"]
    (folder / "session.jsonl").write_bytes(log(3, clock=True))
    assert run("session.jsonl", *gate, "--write-baseline", "known.json").exit_code == 1
    assert run("session.jsonl", *gate, "--baseline", "known.json").exit_code == 0
    (folder / "session.jsonl").write_bytes(log(5, clock=True))
    assert run("session.jsonl", "--baseline", "known.json").exit_code == 1
    assert run("session.jsonl", *gate, "--baseline", "known.json").exit_code == 1
    (folder / "session.jsonl").write_bytes(log(5))
    assert run("session.jsonl", *gate, "--baseline", "known.json").exit_code == 0


def test_a_baseline_is_written_whole_or_not_at_all(folder: Path) -> None:
    result = run("clock.jsonl", "none.jsonl", "--write-baseline", "known.json")
    assert result.exit_code == 2
    assert "known.json is not written" in result.stderr
    assert not (folder / "known.json").exists()
    assert "names tools and labels" in refused(
        "clock.jsonl", "--redact", "--write-baseline", "k.json"
    )
    assert "cannot read the baseline none.json" in refused("clock.jsonl", "--baseline", "none.json")
