"""Where does a report go, and in which form?

What is written to a file is written whole or not at all.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

from kvagent.audit.baseline import Baseline
from kvagent.audit.session import Report
from kvagent.audit.settings import OutputFormat
from kvagent.cli.any_terminal import any_terminal
from kvagent.cli.failure import Failure
from kvagent.cli.whole_file import STANDARD, WholeFile

_WRITERS = {
    "github": "github",
    "json": "as_json",
    "md": "markdown",
    "sarif": "sarif",
}
_SUFFIXES: dict[str, OutputFormat] = {
    ".htm": "html",
    ".html": "html",
    ".json": "json",
    ".markdown": "md",
    ".md": "md",
    ".sarif": "sarif",
}
# Of a report for people that goes into a file.
_WIDTH = 100


def form_of(asked: str | None, output: str, usual: OutputFormat | None) -> OutputFormat:
    """What was asked for, else what the file's name says, else what is usual here.

    Raises:
        Failure: a page would go to a terminal.
    """
    by_name = _SUFFIXES.get(Path(output).suffix.lower())
    form = usual if asked is not None else by_name or usual
    form = form or "terminal"
    if form == "html" and output == STANDARD and sys.stdout.isatty():
        raise Failure("a page is nothing for a terminal: add --output report.html")
    assert form in get_args(OutputFormat)
    return form


def write(
    report: Report, form: OutputFormat, output: str, baseline: str | None, *, details: bool
) -> None:
    """Write the report, and how it is now as a baseline if one is wanted.

    Raises:
        Failure: a file cannot be written.
    """
    if output == STANDARD and form == "terminal":
        _show(report, details=details)
        files: list[tuple[str, bytes]] = []
    else:
        text = _plain(report, details=details) if form == "terminal" else _written(report, form)
        files = [(output, text.encode(errors="replace"))]
        _say_gates(report)
    if baseline is not None and report.failed:
        said = f"{baseline} is not written, it would lack what could not be read"
        print(f"kvagent audit: {said}", file=sys.stderr)
    elif baseline is not None:
        files.append((baseline, Baseline.of(report.sessions, baseline).written()))
    with ExitStack() as stack:
        opened = [(stack.enter_context(WholeFile(name)), data) for name, data in files]
        for file, data in opened:
            file.write(data)
        # All are known to have room before one takes its place.
        for file, _ in opened:
            file.flush()
        for file, _ in opened:
            _commit(file)


def _written(report: Report, form: OutputFormat) -> str:
    if form == "html":
        from kvagent.audit.report import html

        try:
            return html.write(report)
        except html.NoTemplates as error:
            raise Failure(str(error)) from error
    writer = importlib.import_module(f"kvagent.audit.report.{_WRITERS[form]}")
    text: str = writer.write(report)
    return text if text.endswith("\n") else f"{text}\n"


def _show(report: Report, *, details: bool) -> None:
    from kvagent.audit.report.terminal import show

    try:
        show(report, any_terminal(), details=details)
        sys.stdout.flush()
    except BrokenPipeError:
        _nobody_reads()
    except SystemExit:
        # What rich raises where nobody reads any more; the exit status says other things here.
        _nobody_reads()


def _plain(report: Report, *, details: bool) -> str:
    from rich.console import Console

    from kvagent.audit.report.terminal import show

    text = io.StringIO()
    show(report, Console(file=text, width=_WIDTH, color_system=None), details=details)
    return text.getvalue()


def _commit(file: WholeFile) -> None:
    try:
        file.commit()
    except BrokenPipeError:
        _nobody_reads()


def _nobody_reads() -> None:
    """Who reads a pipe has read enough: what is left goes nowhere, and Python's end is quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _say_gates(report: Report) -> None:
    """Which conditions do not hold, for who does not read the report."""
    for gate in report.gates:
        if gate.failed:
            where = f" {gate.file}:" if gate.file else ""
            print(f"kvagent audit: {gate.name}:{where} {gate.said}", file=sys.stderr)
