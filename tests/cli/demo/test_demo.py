"""What does `kvagent demo` print and write, and how does it end when something is missing?"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from kvagent.cli import demo as demo_package
from kvagent.cli.demo import Run
from kvagent.cli.demo.agent import Turn
from kvagent.cli.demo.server import ServerError

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Call the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(demo_package.demo)
    return lambda *arguments: CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """No server: each run has two turns, and is noted here."""
    runs: list[Run] = []

    def play(
        run: Run, threads: int, lines: list[dict[str, Any]] | None, errors: object
    ) -> list[Turn]:
        runs.append(run)
        if lines is not None:
            lines.append({"body": {"text": "é"}, "reply": {"run": run}})
        return [Turn("read_file", 100, 0, 10, 1.0), Turn("answer", 150, 109, 10, 2.0)]

    monkeypatch.setattr(demo_package, "_play", play)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    return runs


def test_it_runs_raw_and_wrapped_and_writes_the_report(invoke: Invoke, played: list[Run]) -> None:
    result = invoke()
    assert result.exit_code == 0, result.output
    assert played == ["raw", "kvagent"]
    sums = {
        "turns": 2,
        "prompt_tokens": 250,
        "cached_tokens": 109,
        "prefilled_tokens": 141,
        "ttft_s_median": 1.5,
    }
    assert json.loads(Path("demo-report.json").read_text()) == {
        "raw": sums,
        "kvagent": sums,
        "floor_tokens": 140,
    }
    assert "read_file" in result.stdout
    assert "demo-report.json" in result.stdout
    assert result.stderr == ""
    assert [path.name for path in Path().iterdir()] == ["demo-report.json"]


def test_the_first_run_is_recorded(invoke: Invoke, played: list[Run]) -> None:
    result = invoke("--record", "calls.jsonl", "--report", "sums.json")
    assert result.exit_code == 0, result.output
    (line,) = Path("calls.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {"body": {"text": "é"}, "reply": {"run": "raw"}}
    assert Path("sums.json").exists()


def test_one_run_alone(invoke: Invoke, played: list[Run]) -> None:
    assert invoke("--only", "clean").exit_code == 0
    assert list(json.loads(Path("demo-report.json").read_text())) == ["clean", "floor_tokens"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--report", "absent/report.json"], "absent/report.json cannot be written"),
        (["--record", "."], ". cannot be written"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_first(
    invoke: Invoke, played: list[Run], arguments: list[str], sentence: str
) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert played == []


@pytest.mark.parametrize("missing", ["openai", "kvagent_openai"])
def test_a_missing_adapter_is_one_sentence(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else name)
    result = invoke()
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "pip install 'kvagent[demo]'" in result.stderr


def test_a_server_that_does_not_start_is_one_sentence(
    invoke: Invoke, played: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(*_: object) -> list[Turn]:
        raise ServerError("The model is missing: install [it].")

    monkeypatch.setattr(demo_package, "_play", play)
    result = invoke()
    assert result.exit_code == 2
    assert result.stderr == "kvagent demo: The model is missing: install [it].\n"


def test_an_interrupt_leaves_no_half_report(
    invoke: Invoke, played: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    play = demo_package._play

    def interrupted(run: Run, *rest: Any) -> list[Turn]:
        if run is Run.KVAGENT:
            raise KeyboardInterrupt
        return play(run, *rest)

    monkeypatch.setattr(demo_package, "_play", interrupted)
    result = invoke("--record", "calls.jsonl")
    assert result.exit_code == 130
    assert "Interrupted" in result.stderr
    assert list(Path().iterdir()) == []


def test_proxies_are_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    with demo_package._without_proxies():
        assert os.environ["NO_PROXY"] == "127.0.0.1"
    assert os.environ["NO_PROXY"] == "example.org"
    assert "no_proxy" not in os.environ
