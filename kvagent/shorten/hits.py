"""Which hits of a search stay, and which files had any?

Each file's name once, as ``rg --heading`` prints it, loses nothing. Then every file keeps its name
and the number of its hits, its first and last hit and those that report an error, and further hits
as far as there is room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from kvagent.shorten.beginning import beginning
from kvagent.shorten.clip import clip
from kvagent.shorten.forms import Form
from kvagent.shorten.marker import marker
from kvagent.shorten.result import Shortened
from kvagent.shorten.rows import choose, rows_of, widest
from kvagent.shorten.source import names_one_of

_COMMANDS = frozenset(("ack", "ag", "egrep", "fgrep", "grep", "rg", "ripgrep", "search"))
_FEWEST = 5  # hits
_SHARE, _SHARE_OF_SEARCH = 0.7, 0.4  # of the lines; less where the call was a search
_LONGEST_PATH = 500
_LEAST_ROOM = 200
_FOR_FILES = 0.6  # of the room, at most

# A drive's letter is part of the path. Clock text is none: a path has a folder, or a name that ends
# like a file's, and does not begin like a date.
_HIT = re.compile(
    r"(?P<path>(?!\[?\d{4}-\d\d-\d\d[T ]|\[?\d\d?:\d\d)"
    r"(?:[A-Za-z]:(?=[\\/]))?"
    r"(?:[^:\n]*[/\\][^:\n/\\]*[^:\n/\\ ]|[^:\n\"'<>|]*[\w-]\.[A-Za-z]\w{0,9}|[A-Z]\w+file|\.\w+))"
    r":(?P<line>\d+):"
)
_PLACE = re.compile(r":\d+:")
_HEADING_HIT = re.compile(r"\d+[:-]")
_CONTEXT = re.compile(r"-(\d+)-")
_PATH = re.compile(
    r"(?:[A-Za-z]:)?[^:\n\"'<>|{}()=;,]*(?:[/\\][^:\n\"'<>|{}()=;,]*|\.[A-Za-z]\w{0,9})"
)


class _Row(NamedTuple):
    """A line of a group: `number` is the line's in its file, with the mark behind it."""

    number: str
    text: str
    is_hit: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """Hits that follow each other in one file; without a path, lines that are no hits."""

    path: str | None
    rows: list[_Row] = field(default_factory=list)

    @property
    def hits(self) -> int:
        return sum(row.is_hit for row in self.rows)


# -- reading


def _groups(text: str, source: str | None) -> list[_Group] | None:
    start = [line for line in beginning(text) if line and line != "--"]
    if len(start) < _FEWEST:
        return None
    least = _SHARE_OF_SEARCH / 2 * len(start)
    flat = sum(map(bool, map(_hit, filter(_PLACE.search, start)))) >= least
    if not flat and sum(map(bool, map(_HEADING_HIT.match, start))) < least:
        return None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    groups = list(_flat(lines) if flat else _under_headings(lines))
    share = _SHARE_OF_SEARCH if names_one_of(source, _COMMANDS) else _SHARE
    filled = sum(line != "" and line != "--" for line in lines)
    in_files = sum(len(group.rows) for group in groups if group.path is not None)
    hits = sum(group.hits for group in groups)
    return groups if hits >= _FEWEST and in_files >= share * filled else None


def _hit(line: str) -> re.Match[str] | None:
    return _HIT.match(line, 0, _LONGEST_PATH) if _PLACE.search(line, 0, _LONGEST_PATH) else None


def _flat(lines: Sequence[str]) -> Iterator[_Group]:
    """From ``path:line:text``, with ``path-line-text`` for the lines around a hit."""
    matches = list(map(_hit, lines))
    paths = {match["path"] for match in matches if match is not None}
    group: _Group | None = None
    for line, match in zip(lines, matches, strict=True):
        path: str | None
        if match is not None:
            path = match["path"]
            row = _Row(match["line"] + ":", line[match.end() :], is_hit=True)
        else:
            path, row = _beside(line, paths)
        # A mark between two places stays where it is: with the group that it ends.
        joins = group is not None and (path == group.path or line == "--")
        if group is None or not joins:
            if group is not None:
                yield group
            group = _Group(path)
        group.rows.append(row)
    if group is not None:
        yield group


def _beside(line: str, paths: AbstractSet[str]) -> tuple[str | None, _Row]:
    """A line that is no hit: one around a hit in a file of `paths`, or one in none."""
    for context in _CONTEXT.finditer(line, 0, _LONGEST_PATH):
        path = line[: context.start()]
        if path in paths:
            return path, _Row(context[1] + "-", line[context.end() :], is_hit=False)
    return None, _Row("", line, is_hit=False)


def _under_headings(lines: Sequence[str]) -> Iterator[_Group]:
    """From a path on a line of its own, and hits without it below."""
    group: _Group | None = None
    for line in lines:
        match = _HEADING_HIT.match(line)
        if match is not None and group is not None and group.path is not None:
            number = match[0]
            group.rows.append(_Row(number, line[match.end() :], is_hit=number[-1] == ":"))
        elif line == "--" and group is not None:
            group.rows.append(_Row("", line, is_hit=False))
        elif line:
            if group is not None:
                yield group
            if match is None and _PATH.fullmatch(line, 0, _LONGEST_PATH):
                group = _Group(line)
            else:
                group = _Group(None, [_Row("", line, is_hit=False)])
    if group is not None:
        yield group


# -- writing


def _whole(groups: Sequence[_Group], handle: str | None) -> Shortened:
    total = sum(group.hits for group in groups)
    lines = [marker(total, total, "hits", handle, ["grouped by file"])]
    for group in groups:
        if group.path is None:
            lines += [row.text for row in group.rows]
        elif len(group.rows) == 1:
            row = group.rows[0]
            lines.append(f"{group.path}{row.number[-1:]}{row.number}{row.text}")
        else:
            lines.append(group.path)
            lines += [row.number + row.text for row in group.rows]
    return Shortened("\n".join(lines), total, 0, "hits", lossless=True)


def _chosen(
    groups: Sequence[_Group], budget: int, handle: str | None, known: AbstractSet[str]
) -> Shortened | None:
    total = sum(group.hits for group in groups)
    notes = ["grouped by file"]
    longest = len(marker(0, total, "hits", handle, [*notes, f"{total} more cut"]))
    room = budget - longest - len(str(total)) - len("\n")
    named, room = _named(groups, room)
    if room < 0 or not named:
        return None
    width = widest([len(row.text) for index in named for row in groups[index].rows], room)
    where: list[tuple[int, int]] = []
    texts: list[str] = []
    told: list[str] = []  # without their numbers
    long: list[str] = []
    for index in named:
        for place, row in enumerate(groups[index].rows):
            if len(row.text) > width:
                long.append(row.text)
            prefix = row.number if len(groups[index].rows) > 1 else row.number[-1:]
            where.append((index, place))
            told.append(clip(row.text, width))
            texts.append(prefix + told[-1])
    rows = rows_of(texts, room, "hits", gaps=False)
    last_line = choose(rows, _first_and_last(where), told=told, cut="\n".join(long), known=known)
    shown: dict[int, list[int]] = {index: [] for index in named}
    kept = were_cut = 0
    for piece in rows.kept():
        index, place = where[piece]
        shown[index].append(piece)
        row = groups[index].rows[place]
        if row.is_hit:
            cut = len(row.text) > width
            were_cut += cut
            kept += not cut
    notes += [f"{were_cut} more cut"] if were_cut else []
    lines = [marker(kept, total, "hits", handle, notes)]
    for index in named:
        lines += _lines(groups[index], [texts[piece] for piece in shown[index]])
    if len(named) < len(groups):
        lines.append(_more([group for at, group in enumerate(groups) if at not in shown]))
    if last_line:
        lines.append(last_line)
    return Shortened("\n".join(lines), kept, total - kept, "hits", lossless=False)


def _named(groups: Sequence[_Group], room: int) -> tuple[list[int], int]:
    """The groups whose names stand, and the room that their names leave."""
    sizes = [len(_heading(group)) + 1 for group in groups]
    if sum(sizes) <= room * _FOR_FILES:
        return list(range(len(groups))), room - sum(sizes)
    room -= len(_more(groups)) + 1
    for_names = int(room * _FOR_FILES)
    named: list[int] = []
    for index, size in enumerate(sizes):
        if size <= for_names:
            for_names -= size
            room -= size
            named.append(index)
    return named, room


def _heading(group: _Group) -> str:
    """The longest of what stands for a group beside its rows."""
    if group.path is None:
        return ""
    if len(group.rows) == 1:
        return f"{group.path}{group.rows[0].number[-1:]}{group.rows[0].number[:-1]}"
    return f"{group.path} [{group.hits} of {group.hits} hits]"


def _lines(group: _Group, texts: Sequence[str]) -> list[str]:
    if group.path is None:
        return list(texts)
    if len(group.rows) == 1:
        return [_heading(group) + "".join(texts)]
    hits = group.hits
    if len(texts) == len(group.rows):
        return [group.path, *texts]
    mark = re.compile(r"\d+:")
    stand = sum(mark.match(text) is not None for text in texts)
    note = f"{stand} of {hits} hits" if texts else f"{hits} hits"
    return [f"{group.path} [{note}]", *texts]


def _more(groups: Sequence[_Group]) -> str:
    files = len({group.path for group in groups if group.path is not None})
    return f"[… {files} more files with {sum(group.hits for group in groups)} hits …]"


def _first_and_last(where: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The first row of each group, then the last of each."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for piece, (index, _) in enumerate(where):
        first.setdefault(index, piece)
        last[index] = piece
    yield from first.values()
    yield from last.values()


_HITS = Form(_groups, _whole, _chosen, least=_LEAST_ROOM)

lossless = _HITS.lossless
"""The hits grouped by file; None where the text is no list of hits, or is no shorter so."""

shorten = _HITS.shorten
"""Shortens the hits of a search to at most `budget` characters; None for other texts."""
