"""In which form is a report written, and what may be left out of it?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from kvagent.audit.settings import OutputFormat
from kvagent.cli.audit.output import form_of
from kvagent.cli.failure import Failure
from tests.cli.audit.auditing import COMMAND, log, report, run


def test_the_form_follows_the_file_s_name(folder: Path) -> None:
    assert run("clean.jsonl", "-o", "report.json").exit_code == 0
    as_json = (folder / "report.json").read_text()
    assert json.loads(as_json)
    assert run("clean.jsonl", "-o", "report.txt").exit_code == 0
    assert "clean.jsonl" in (folder / "report.txt").read_text()
    assert run("clean.jsonl", "-o", "named.txt", "--output-format", "json").exit_code == 0
    assert (folder / "named.txt").read_text() == as_json
    (folder / "pyproject.toml").write_text("[tool.kvagent.audit]\noutput-format = 'json'\n")
    assert run("clean.jsonl", "-o", "set.txt").exit_code == 0
    assert (folder / "set.txt").read_text() == as_json
    assert run("clean.jsonl", "-o", "set.xyz").exit_code == 0
    assert (folder / "set.xyz").read_text() == as_json
    assert not list(folder.glob(".kvagent-*"))


def test_a_file_may_have_any_suffix_if_the_form_is_named(folder: Path) -> None:
    for form in get_args(OutputFormat):
        assert form_of(form, "report.xyz", form) == form
    assert run("clean.jsonl", "-o", "report.xyz", "--output-format", "terminal").exit_code == 0
    assert run("clean.jsonl", "-o", "report").exit_code == 0
    assert (folder / "report").read_text() == (folder / "report.xyz").read_text()


def test_a_page_is_nothing_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(Failure, match=r"add --output report\.html"):
        form_of("html", "-", "html")
    assert form_of("html", "report.txt", "html") == "html"
    assert form_of(None, "-", None) == "terminal"


@pytest.mark.parametrize("form", ["json", "html", "md", "sarif", "github", "terminal"])
def test_every_form_is_the_same_each_time(folder: Path, form: str) -> None:
    """Whatever the order of Python's sets is."""
    if form == "html":
        pytest.importorskip("jinja2", reason="needs the extra `audit`")
    written = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [*COMMAND, "clock.jsonl", "clean.jsonl", "--fail-on", "note", "--output-format", form],
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=False,
        )
        assert done.returncode == 1, done.stderr
        written.append((done.stdout, done.stderr))
    assert written[0] == written[1]
    assert b"clock.jsonl" in written[0][0]


def test_redacted(folder: Path) -> None:
    secret = log(clock=True).replace(b"careful agent", b"zebra stripes")
    (folder / "secret.jsonl").write_bytes(secret)
    arguments = ["secret.jsonl", "--output-format", "json"]
    plain, hidden = run(*arguments), run(*arguments, "--redact")
    assert "09:00:01" in plain.stdout
    for text in ("zebra", "09:00:0"):
        assert text not in hidden.stdout
    one, other = json.loads(plain.stdout), json.loads(hidden.stdout)
    assert one["sessions"][0]["totals"] == other["sessions"][0]["totals"]


def test_what_if_can_be_left_out(folder: Path) -> None:
    assert report("clock.jsonl")["sessions"][0]["what_if"] is not None
    assert report("clock.jsonl", "--no-what-if")["sessions"][0]["what_if"] is None
