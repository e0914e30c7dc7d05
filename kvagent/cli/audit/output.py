"""Where does a report go, and in which form?

What is written to a file is written whole or not at all.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, get_args

from kvagent.audit.baseline import Baseline
from kvagent.audit.files import files_of
from kvagent.audit.formats import recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.report.page.visible import visible
from kvagent.audit.session import Report
from kvagent.audit.settings import OutputFormat
from kvagent.audit.source import opened
from kvagent.audit.transcript import NoTranscript
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
# A file with one of these may be in any form; one with another name is none that there is.
_ANY = ("", ".txt")
# Of a report for people that goes into a file.
_WIDTH = 100


def form_of(asked: str | None, output: str, usual: OutputFormat | None) -> OutputFormat:
    """What was asked for, else what the file's name says, else what is usual here.

    Raises:
        Failure: a page would go to a terminal, or the file's name says nothing that is known.
    """
    suffix = Path(output).suffix.lower()
    form = usual if asked is not None else _SUFFIXES.get(suffix) or usual
    if form is None and suffix not in _ANY:
        *known, last = sorted([*_SUFFIXES, *filter(None, _ANY)])
        raise Failure(
            f"no report has the suffix {one_line(suffix)}: name the file {', '.join(known)} or "
            f"{last}, or say with --output-format how it is written"
        )
    form = form or "terminal"
    if form == "html" and output == STANDARD and sys.stdout.isatty():
        raise Failure("a page is nothing for a terminal: add --output report.html")
    assert form in get_args(OutputFormat)
    return form


class Output:
    """Where the report goes, and how it is now as a baseline if one is wanted.

    A context manager, opened before the work begins: what cannot be written is said at once. What is
    not written when it ends leaves nothing behind.

    Raises:
        Failure: a file cannot be written, or would replace another that is wanted; or as ``form_of``.
    """

    def __init__(
        self,
        asked: str | None,
        usual: OutputFormat | None,
        output: str,
        baseline: str | None,
        sources: Sequence[str],
    ) -> None:
        self._baseline = baseline or STANDARD
        if output == baseline == STANDARD:
            raise Failure("report and baseline cannot go to the same place: give --output")
        others = list(sources)
        for target in (output, baseline):
            if target is None:
                continue
            for other in others:
                if _is_same_file(target, other):
                    raise Failure(f"{target} would replace {other}: name another file")
            if _is_transcript_of(target, sources):
                raise Failure(f"{target} is a transcript that is audited: name another file")
            others.append(target)
        self._form = form_of(asked, output, usual)
        self._on_screen = self._form == "terminal" and output == STANDARD
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._report = stack.enter_context(WholeFile(output))
            self._known = None if baseline is None else stack.enter_context(WholeFile(baseline))
            self._stack = stack.pop_all()

    @property
    def is_seen(self) -> bool:
        """Whether who calls looks at the report: what it tells need not be told beside it."""
        return self._on_screen and sys.stdout.isatty()

    def write(self, report: Report, *, details: bool) -> None:
        """Write all of it.

        Raises:
            Failure: a file cannot be written.
        """
        if self._on_screen:
            data = _on_screen(report, details=details)
        else:
            form = self._form
            text = _plain(report, details=details) if form == "terminal" else _written(report, form)
            data = text.encode(errors="replace")
            _say_gates(report)
        self._report.write(data)
        files = [self._report]
        if (known := self._known) is not None:
            if report.failed:
                say(f"{known.name} is not written, it would lack what could not be read")
            else:
                known.write(Baseline.of(report.sessions, self._baseline).written())
                files.append(known)
        # All are known to have room before one takes its place.
        for file in files:
            file.flush()
        for file in files:
            _commit(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()


def _is_same_file(one: str, other: str) -> bool:
    """Whether both are one file that is there, or would be; a device is replaced by nothing."""
    if STANDARD in (one, other):
        return False
    path = Path(one)
    if path.exists() and not path.is_file():
        return False
    return os.path.realpath(one) == os.path.realpath(other)


def _is_transcript_of(target: str, sources: Sequence[str]) -> bool:
    """Whether a file of the folders that are audited is one; a report may lie there and be renewed."""
    if target == STANDARD or not Path(target).is_file():
        return False
    real = os.path.realpath(target)
    if all(os.path.realpath(file.path) != real for file in files_of(sources)):
        return False
    try:
        with opened(target) as source:
            recognise(Contents.of(source))
    except NoTranscript:
        return False
    return True


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


class _Screen(io.StringIO):
    """Holds what standard output is to show, and looks like it."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of standard output."""
        return sys.stdout.encoding or "utf-8"

    def isatty(self) -> bool:
        return sys.stdout.isatty()


def _on_screen(report: Report, *, details: bool) -> bytes:
    """What the terminal is to show, with its colours and in its encoding."""
    from rich.console import Console

    from kvagent.audit.report.terminal import show

    screen = _Screen()
    show(report, Console(file=screen), details=details)
    return screen.getvalue().encode(screen.encoding, errors="replace")


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


def say(text: str) -> None:
    """Tell something beside the report."""
    print(f"kvagent audit: {one_line(text)}", file=sys.stderr)


def one_line(text: str) -> str:
    """A sentence as one line in which nothing is hidden: files may have any name."""
    return visible(" ".join(text.splitlines()))


def _say_gates(report: Report) -> None:
    """Which conditions do not hold, for who does not read the report."""
    for gate in report.gates:
        if gate.failed:
            say(f"{gate.name}: {f'{gate.file}: ' if gate.file else ''}{gate.said}")
