"""Where does `kvagent rewrite` run in its tests?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.rewrite.recordings import SESSION


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the command runs, with a recording `in.jsonl`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_bytes(SESSION)
    return tmp_path
