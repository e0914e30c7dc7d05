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
    assert figures["prefill"] < 29_000
    assert figures["breaks"] == 0
    assert figures["pair_faults"] == 0
    assert figures["needles"] == 2


SESSIONS = {
    "claudecode_196820da": (),
    "claudecode_3fe1b6bc": (),
    "codex_rollout_019e1625": (),
    "pi_before-compaction": ("--max-turns", "150"),
}


@pytest.mark.parametrize(
    ("window", "least"),
    [
        (32_000, {"ratio": 1.2, "total": 1.4, "at_risk": 0.80, "grounded": 0.60}),
        (16_000, {"total": 2.2}),
    ],
)
def test_recorded_sessions_fit_a_small_window_and_lose_little(
    window: int, least: dict[str, float], shared: Path, kvlab: Path, tmp_path: Path
) -> None:
    """Without a model, in the mean: what it costs, and what is lost of what the agent went on to use."""
    scores = [
        scored(name, options, window, shared, kvlab, tmp_path) for name, options in SESSIONS.items()
    ]
    assert all(score["peak"] <= window and not score["pair_faults"] for score in scores)
    for measure, bound in least.items():
        mean = sum(score[measure] for score in scores) / len(scores)
        assert mean <= bound if measure in ("ratio", "total") else mean >= bound, (measure, mean)


def scored(
    name: str, options: tuple[str, ...], window: int, shared: Path, kvlab: Path, folder: Path
) -> dict[str, Any]:
    """What a recorded session costs and loses in a window."""
    session = shared / "data" / f"{name}.jsonl"
    if not session.is_file():
        pytest.skip(f"there is no recorded session at {session}")
    came, went = folder / f"{name}.came.jsonl", folder / f"{name}.went.jsonl"
    python, measure = str(kvlab / "venv" / "bin" / "python"), shared / "measure"
    subprocess.run(
        [python, str(measure / "to_requests.py"), str(session), str(came), *options],
        capture_output=True,
        check=True,
    )
    result = CliRunner().invoke(
        main, ["rewrite", str(came), "-o", str(went), "--window", str(window)]
    )
    assert (result.exit_code, result.output) == (0, "")
    done = subprocess.run(
        [python, str(measure / "score.py"), str(came), str(went)],
        capture_output=True,
        text=True,
        check=True,
    )
    score: dict[str, Any] = json.loads(done.stdout)
    return score


def test_what_has_no_fault_goes_out_as_it_came(shared: Path, tmp_path: Path) -> None:
    recording = shared / "cases" / "requests_clean.jsonl"
    wire = rewritten(recording, tmp_path, '{"evict": null}')
    assert wire.read_bytes() == recording.read_bytes()
