"""Which files are together one log, because each holds one request of it?

Proxies and frameworks write a file for each model call. Apart, none of them has anything in common
with what was sent before.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kvagent.audit.files import File
from kvagent.audit.formats import BY_NAME, recognise
from kvagent.audit.formats.contents import Contents
from kvagent.audit.names import STANDARD
from kvagent.audit.sent import raw_of
from kvagent.audit.source import opened
from kvagent.audit.transcript import Item, NoTranscript, Request
from kvagent.chat import HEAD_ROLES

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


@dataclass(frozen=True, slots=True)
class _Found:
    """A file that holds one request, as far as it shows by itself."""

    file: File
    time_s: float | None
    links: Sequence[int]
    """For each message behind the head, what stands for it and all before it."""
    is_sure: bool
    """False: it has no answer, so it may be a session of which the last request is told."""


def logs_of(files: Sequence[File], format: str | None = None) -> list[Log]:
    """Every file is a log of its own, but those of a folder that hold one request each are one.

    They are read in the order of their times, or of their names where not all have one; numbers in
    names count as such.
    """
    found: dict[Path, list[_Found]] = defaultdict(list)
    for file in files if len(files) > 1 else ():
        one = _one_request(file, format)
        if one is not None:
            found[Path(file.path).parent].append(one)
    logs: dict[str, Log] = {}
    together = {folder: _related(each) for folder, each in found.items()}
    for file in files:
        folder = Path(file.path).parent
        members = together.get(folder, ())
        if len(members) > 1 and any(file is member.file for member in members):
            log = Log(_name(folder, members), _in_order(members))
        else:
            log = Log(file.path, (file,))
        logs.setdefault(log.name, log)
    return list(logs.values())


def as_sent(items: Iterable[Item]) -> Iterator[Item]:
    """What is in files of one request each: of one without an answer, not its history once more."""
    return (item for item in items if not isinstance(item, Request) or not item.unrolled)


def _one_request(file: File, format: str | None) -> _Found | None:
    """The request of a file that holds one as it was sent, and nothing else."""
    path = file.path
    try:
        if path == STANDARD or not 0 < Path(path).stat().st_size < _LARGEST:
            return None
        with opened(path) as source:
            contents = Contents.of(source)
            if not contents.alone:
                return None
            known = recognise(contents) if format is None else BY_NAME[format]
            history, sent = 0, None
            for item in known.read(contents):
                if not isinstance(item, Request) or sent is not None:
                    return None
                if item.unrolled:
                    history += 1
                else:
                    sent = item
    except (NoTranscript, OSError, ValueError):
        return None  # who reads it will say why
    if sent is None:
        return None
    return _Found(file, sent.time_s, _links(sent), is_sure=not history)


def _links(request: Request) -> list[int]:
    link, links = 0, []
    for message in request.messages:
        if message.get("role") not in HEAD_ROLES:
            link = hash((link, raw_of(message)))
            links.append(link)
    return links


def _related(found: Sequence[_Found]) -> Sequence[_Found]:
    """Those that are surely requests, and those of which one is the beginning of another."""
    begun = Counter(link for each in found for link in set(each.links))
    ends = Counter(each.links[-1] for each in found if each.links)
    return [
        each
        for each in found
        if each.is_sure
        or (each.links and begun[each.links[-1]] > 1)
        or any(ends[link] for link in each.links[:-1])
    ]


def _name(folder: Path, members: Sequence[_Found]) -> str:
    suffixes = {Path(member.file.path).suffix for member in members}
    return str(folder / f"*{suffixes.pop() if len(suffixes) == 1 else ''}")


def _in_order(members: Sequence[_Found]) -> list[File]:
    if all(member.time_s is not None for member in members):
        members = sorted(members, key=lambda member: member.time_s or 0.0)
    else:
        members = sorted(members, key=lambda member: _natural(member.file.path))
    return [member.file for member in members]


def _natural(path: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for part in _DIGITS.split(Path(path).name)
    ]
