"""Does a report of real sessions fit one screen?"""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from kvagent.audit.run import audit_file, audit_files
from kvagent.audit.session import Report
from kvagent.audit.settings import Settings
from tests.audit.report.terminal.telling import told


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
