"""Which files does somebody mean who names files and folders?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvagent.audit.names import STANDARD


@dataclass(frozen=True, slots=True)
class File:
    """A file to be read."""

    path: str
    """As it was named, or below the folder that was; ``-`` is standard input."""
    named: bool
    """Whether it was named itself: what is in a folder may be something else."""


def files_of(sources: Sequence[str | os.PathLike[str]]) -> list[File]:
    """The files that are meant, each once: those of a folder in the order of their names.

    Hidden files and folders are none, nor are links to folders. What is not there is a file that
    was named: who opens it will say so.
    """
    found: dict[str, File] = {}
    for source in [os.fspath(each) for each in sources]:
        is_folder = source != STANDARD and Path(source).is_dir()
        for path in _below(Path(source)) if is_folder else (source,):
            real = path if path == STANDARD else os.path.realpath(path)
            before = found.get(real)
            if before is None or (not is_folder and not before.named):
                found[real] = File(path if before is None else before.path, not is_folder)
    return list(found.values())


def _below(folder: Path) -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return  # what may not be looked into holds nothing for who asks
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_file():
            yield str(entry)
        elif entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)
