"""Does the command line offer its commands without importing what they need?"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import kvagent
from kvagent import cli
from kvagent.cli.failure import Failure

runner = CliRunner()


def test_version() -> None:
    result = runner.invoke(cli.main, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"kvagent {kvagent.__version__}\n")


def test_help_names_every_command() -> None:
    result = runner.invoke(cli.main, ["--help"])
    assert result.exit_code == 0
    assert set(cli.COMMANDS) <= set(result.stdout.split())


def test_without_a_command_there_is_help() -> None:
    result = runner.invoke(cli.main, [])
    assert result.exit_code == 2
    assert "rewrite" in result.output


def test_an_unknown_command_is_named() -> None:
    result = runner.invoke(cli.main, ["rewind"])
    assert result.exit_code == 2
    assert "rewind" in result.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_command_is_found_where_the_table_says(name: str) -> None:
    function = getattr(importlib.import_module(cli.COMMANDS[name].module), name)
    assert callable(function)
    assert runner.invoke(cli.main, [name, "--help"]).exit_code == 0


def test_help_imports_no_command() -> None:
    code = """
import json, sys
from kvagent.cli import main
try:
    main(["--help"])
except SystemExit:
    print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert "kvagent.cli" in modules
    assert not modules & {command.module for command in cli.COMMANDS.values()}
    assert not modules & {"httpx", "httpx2", "openai", "kvagent_openai", "tiktoken"}


def test_a_failure_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewrite() -> None:
        raise Failure("no ink")

    monkeypatch.setattr("kvagent.cli.rewrite.rewrite", rewrite)
    result = runner.invoke(cli.main, ["rewrite"])
    assert (result.exit_code, result.stderr) == (2, "kvagent rewrite: no ink\n")
    assert isinstance(cli.main, typer.Typer)


@pytest.mark.parametrize("name", ["", *cli.COMMANDS])
def test_help_has_a_short_name(name: str) -> None:
    words = [name] if name else []
    short, long = (runner.invoke(cli.main, [*words, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.stdout) == (0, long.stdout)


def test_the_package_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "kvagent"]
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"kvagent {kvagent.__version__}\n"
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.lstrip().startswith("Usage: kvagent [")


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "audit --help",
        "explain",
        "explain KVA101",
        "plan llama-3-8b --gpu h100 --context 8192",
        f"shorten {Path(__file__).name}",
        "size llama-3-8b",
        "size llama-3-8b --json",
    ],
)
def test_a_full_disk_is_one_sentence(words: str) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kvagent", *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
            check=False,
        )
    name = "kvagent" if words.startswith("-") else f"kvagent {words.split(maxsplit=1)[0]}"
    assert (done.returncode, done.stderr) == (2, f"{name}: No space left on device\n")
