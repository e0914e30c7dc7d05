"""Which files are together one log, because each holds one request of it?

Proxies and frameworks write a file for each model call. Apart, none of them has anything in common
with what was sent before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from kvagent.audit.files import File
from kvagent.audit.formats import BY_NAME, recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.source import STANDARD, opened
from kvagent.audit.transcript import NoTranscript, Request

# A request with pictures has some millions of bytes; a log of many has more.
_LARGEST = 1 << 24

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Log:
    """What is audited as one."""

    name: str
    """Of its file, or of its files: ``logs/*.json``."""
    files: Sequence[File]
    """In the order in which they are read."""


def logs_of(files: Sequence[File], format: str | None = None) -> list[Log]:
    """Every file is a log of its own, but those of a folder that hold one request each are one.

    They are read in the order of their times, or of their names where not all have one; numbers in
    names count as such.
    """
    loose: dict[Path, list[tuple[File, float | None]]] = defaultdict(list)
    for file in files if len(files) > 1 else ():
        found = _one_request(file.path, format)
        if found is not None:
            loose[Path(file.path).parent].append((file, found.time_s))
    logs: dict[str, Log] = {}
    for file in files:
        folder = Path(file.path).parent
        members = loose.get(folder, ())
        if len(members) > 1 and any(file is member for member, _ in members):
            log = Log(_name(folder, members), _in_order(members))
        else:
            log = Log(file.path, (file,))
        logs.setdefault(log.name, log)
    return list(logs.values())


def _one_request(path: str, format: str | None) -> Request | None:
    """The request of a file that holds one as it was sent, and nothing else."""
    try:
        if path == STANDARD or not 0 < Path(path).stat().st_size < _LARGEST:
            return None
        with opened(path) as source:
            contents = Contents.of(source)
            if not contents.alone:
                return None
            known = recognise(contents) if format is None else BY_NAME[format]
            items = list(islice(known.read(contents), 2))
    except (NoTranscript, OSError, ValueError):
        return None  # who reads it will say why
    item = items[0] if len(items) == 1 else None
    return item if isinstance(item, Request) and not item.unrolled else None


def _name(folder: Path, members: Sequence[tuple[File, float | None]]) -> str:
    suffixes = {Path(file.path).suffix for file, _ in members}
    return str(folder / f"*{suffixes.pop() if len(suffixes) == 1 else ''}")


def _in_order(members: Sequence[tuple[File, float | None]]) -> list[File]:
    times = [time for _, time in members if time is not None]
    if len(times) == len(members):
        return [file for file, _ in sorted(members, key=lambda member: member[1] or 0.0)]
    return sorted((file for file, _ in members), key=lambda file: _natural(file.path))


def _natural(path: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in _DIGITS.split(Path(path).name)
    ]
