"""Does what `kvagent rewrite` writes reach the figures that are promised?

Measured by a meter that shares no code with kvagent: it renders the requests through a real chat template with a
real tokenizer, and counts what a block cache like vLLM's would have had.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kvagent.cli import main


@pytest.fixture(scope="module")
def kvlab() -> Path:
    """The meter's own environment and tokenizer."""
    folder = Path(os.environ.get("KVLAB") or Path.home() / ".cache" / "kvlab")
    for needed in (folder / "venv" / "bin" / "python", folder / "qwen" / "tokenizer.json"):
        if not needed.exists():
            pytest.skip(f"the meter needs {needed}: run measure/setup.sh of the shared folder")
    return folder


def measured(wire: Path, shared: Path, kvlab: Path) -> dict[str, Any]:
    """What the meter says of the requests in `wire`, and of each under `rows`."""
    meter = shared / "measure" / "meter.py"
    if not meter.is_file():
        pytest.skip(f"there is no meter at {meter}")
    done = subprocess.run(
        [str(kvlab / "venv" / "bin" / "python"), str(meter), str(wire), "--json"],
        env={**os.environ, "KVLAB": str(kvlab)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def rewritten(recording: Path, folder: Path, policy: str) -> Path:
    """The file with what would have gone out for `recording`."""
    if not recording.is_file():
        pytest.skip(f"there are no recorded requests at {recording}")
    (folder / "policy.json").write_text(policy)
    result = CliRunner().invoke(
        main,
        [
            *("rewrite", str(recording), "-o", str(folder / "wire.jsonl")),
            *("--policy", str(folder / "policy.json")),
        ],
    )
    assert (result.exit_code, result.output) == (0, "")
    return folder / "wire.jsonl"


@pytest.mark.parametrize("name", ["requests.jsonl", "requests_keyorder.jsonl"])
def test_the_habits_of_agents_cost_no_prefix(
    name: str, shared: Path, kvlab: Path, tmp_path: Path
) -> None:
    """With eviction off: what is left to prefill is what is new, and the notes of a clock that ticks."""
    wire = rewritten(shared / "cases" / name, tmp_path, '{"evict": null}')
    figures = measured(wire, shared, kvlab)
    assert figures["requests"] == 8
    assert figures["hit"] >= 84.8
    assert figures["prefill"] <= 13_250
    assert figures["breaks"] == 0
    assert figures["pair_faults"] == 0


def test_long_results_are_shortened_and_the_needles_stay(
    shared: Path, kvlab: Path, tmp_path: Path
) -> None:
    wire = rewritten(shared / "cases" / "requests_long.jsonl", tmp_path, "{}")
    figures = measured(wire, shared, kvlab)
    assert figures["requests"] == 24
    assert figures["prefill"] < 32_000
    assert figures["breaks"] == 0
    assert figures["pair_faults"] == 0
    assert figures["needles"] == 2


def test_what_has_no_fault_goes_out_as_it_came(shared: Path, tmp_path: Path) -> None:
    recording = shared / "cases" / "requests_clean.jsonl"
    wire = rewritten(recording, tmp_path, '{"evict": null}')
    assert wire.read_bytes() == recording.read_bytes()
