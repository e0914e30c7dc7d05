"""Does `kvagent shorten` show what a text becomes?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kvagent.cli import main
from kvagent.policy import Evict
from kvagent.shorten import shorten
from kvagent.tokens.counter import ESTIMATE

RECORDS = json.dumps([{"id": n, "name": f"user {n}", "state": "ok"} for n in range(500)], indent=2)
LOG = "".join(f"step {n} of src/module_{n}.py done\n" for n in range(2000))


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["shorten", *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.json").write_text(RECORDS)
    (tmp_path / "run.log").write_text(LOG)
    return tmp_path


def test_the_text_on_stdout_and_one_line_on_stderr(folder: Path) -> None:
    result = run("users.json", "--budget", "2000")
    assert result.exit_code == 0
    shortened = shorten(RECORDS, 2000, source="users.json")
    assert result.stdout == shortened.text + "\n"
    tokens = ESTIMATE.count(RECORDS), ESTIMATE.count(shortened.text)
    assert result.stderr == (
        f"json: {shortened.kept} of 500 items; {len(RECORDS):,} to {len(shortened.text):,} "
        f"characters, {tokens[0]:,} to {tokens[1]:,} tokens (estimate: cl100k)\n"
    )


def test_nothing_lost(folder: Path) -> None:
    result = run("users.json", "--budget", "20000")
    assert result.stderr.startswith("json: all 500 items, nothing lost; ")
    assert result.stdout.startswith("[… all 500 items shown, as a table]\n")


@pytest.mark.parametrize("budget", [1, 50, 300, 3000])
def test_a_budget_in_tokens(folder: Path, budget: int) -> None:
    result = run("run.log", "--budget", str(budget), "--tokens")
    assert result.exit_code == 0
    assert ESTIMATE.count(result.stdout.removesuffix("\n")) <= budget
    if budget >= 300:
        assert ESTIMATE.count(result.stdout) > budget / 2


def test_without_a_budget_it_is_the_policys(folder: Path) -> None:
    keep = Evict().tokens_kept(ESTIMATE.count(LOG), None)
    result = run("run.log")
    assert keep / 2 < ESTIMATE.count(result.stdout.removesuffix("\n")) <= keep
    assert result.stdout == run("run.log", "--budget", str(keep), "--tokens").stdout


def test_what_fits_is_left_as_it_is(folder: Path) -> None:
    for arguments in (("--budget", "1000000"), ("--budget", "999999", "--tokens")):
        result = run("users.json", *arguments)
        assert result.stdout == RECORDS + "\n"
        assert result.stderr.startswith("left as it is; ")


def test_standard_input_and_where_it_comes_from() -> None:
    names = "".join(f"word{n}\n" for n in range(900))
    assert not run("-", "--budget", "600", stdin=names).stderr.startswith("listing:")
    result = run("-", "--budget", "600", "--source", "bash ls", stdin=names)
    assert re.match(r"listing: \d+ of 900 entries; ", result.stderr)


def test_other_scripts_come_out_whole() -> None:
    text = "".join(f"Zeile {n}: größe 漢字\n" for n in range(400))
    result = run("-", "--budget", "700", stdin=text.encode())
    assert "größe 漢字" in result.stdout


def test_an_empty_text() -> None:
    result = run("-", stdin=b"")
    assert (result.exit_code, result.stdout) == (0, "")


def test_what_cannot_be_read(folder: Path) -> None:
    result = run("missing.txt")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "kvagent shorten: cannot read missing.txt: No such file or directory\n"
    (folder / "image").write_bytes(b"ab\xff\xfe")
    result = run("image")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "kvagent shorten: image is no text in UTF-8: see byte 2\n"
    assert run("-", stdin=b"\xff").stderr.startswith("kvagent shorten: standard input is no text")


@pytest.mark.parametrize("arguments", [(), ("x", "--budget", "0"), ("x", "--budget", "many")])
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
