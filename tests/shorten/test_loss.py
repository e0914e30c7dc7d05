"""How much of what recorded agents needed again is still there when long results are short?"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BUDGET = 4800  # characters a result


@pytest.fixture(scope="module")
def figures(shared: Path) -> dict[str, dict[str, float]]:
    """The figures of the benchmark for each way to shorten."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    shortening = importlib.import_module("shortening")
    sessions = importlib.import_module("recorded_sessions").sessions(shared)
    recorded = [shortening.Session(name, messages) for name, messages in sessions]
    return {
        way: shortening.figures({one.name: one.share(BUDGET, run) for one in recorded})
        for way, run in shortening.WAYS.items()
    }


@pytest.mark.parametrize("scope", ["pooled", "by_session", "long"])
def test_enough_is_left(figures: dict[str, dict[str, float]], scope: str) -> None:
    own = figures["kvagent"]
    assert own[f"at_risk_{scope}"] >= 0.75
    assert own[f"grounded_{scope}"] >= 0.60


def test_more_than_simpler_ways_leave(figures: dict[str, dict[str, float]]) -> None:
    own = figures["kvagent"]
    for way in list(figures)[:3]:
        assert all(value > figures[way][name] for name, value in own.items()), way


def test_more_still_where_it_is_told_what_stands_already(
    figures: dict[str, dict[str, float]],
) -> None:
    own = figures["kvagent"]
    assert all(value > own[name] for name, value in figures["beside others"].items())
