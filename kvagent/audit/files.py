"""Which files does somebody mean who names files and folders?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kvagent.audit.names import STANDARD


@dataclass(frozen=True, slots=True)
class File:
    """A file to be read."""

    path: str
    """As it was named, or below the folder that was; ``-`` is standard input."""
    named: bool
    """Whether it was named itself: what is in a folder may be something else."""
    closed: str = ""
    """Why nobody knows what is in it: it is a folder that cannot be looked into."""


def files_of(sources: Sequence[str | os.PathLike[str]]) -> list[File]:
    """The files that are meant, each once: those of a folder in the order of their names.

    Hidden files and folders are none, nor are links to folders. What is not there is a file that
    was named: who opens it will say so.
    """
    found: dict[str, File] = {}
    for source in [os.fspath(each) for each in sources]:
        is_folder = source != STANDARD and os.path.isdir(source)  # noqa: PTH112  (never raises)
        for file in _below(Path(source)) if is_folder else (File(source, named=True),):
            real = file.path if file.path == STANDARD else os.path.realpath(file.path)
            before = found.setdefault(real, file)
            if file.named and not before.named:
                found[real] = replace(before, named=True)
    return list(found.values())


def _below(folder: Path) -> Iterator[File]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError as error:
        yield File(str(folder), named=False, closed=error.strerror or str(error))
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path)
        # What may be listed may yet be closed: that it is a file its folder says, a link does not.
        elif entry.is_file(follow_symlinks=False) or os.path.isfile(path):  # noqa: PTH113
            yield File(str(path), named=False)
