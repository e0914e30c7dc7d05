"""How far has a command come?

A bar on stderr while it is a terminal; elsewhere nothing but what is said.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Screen:
    """What a command tells while it runs."""

    advance: Callable[[int], None]
    """Told the bytes that were done since it was last told."""
    say: Callable[[str], None]
    """Writes a line on stderr, above the bar."""


@contextmanager
def progress(title: str, size: int | None) -> Iterator[Screen]:
    """Show a bar for a file of ``size`` bytes; None where nobody knows its size."""
    if not sys.stderr.isatty():
        yield Screen(lambda _: None, lambda text: print(text, file=sys.stderr))
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    console = Console(stderr=True)
    # Of a document that is read at once the work comes behind the last byte: what turns and counts
    # shows that it goes on.
    columns = (
        SpinnerColumn("line"),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
    )
    # What is on the screen belongs to the result alone once the bar has done its work.
    with Progress(*columns, console=console, transient=True) as bar:
        # One more than there is: a bar that is full stands still.
        task = bar.add_task(title, total=None if size is None else size + 1)
        yield Screen(
            lambda done: bar.advance(task, done),
            lambda text: console.print(text, markup=False, highlight=False, soft_wrap=True),
        )
