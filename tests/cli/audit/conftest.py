"""Where does `kvagent audit` run in its tests?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.audit.auditing import log


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a clean log and one with a fault."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "clean.jsonl").write_bytes(log())
    (tmp_path / "clock.jsonl").write_bytes(log(clock=True))
    return tmp_path
