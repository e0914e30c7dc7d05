"""Which names of a list of files stay, and what is in each folder?

Every folder's name once, its files beside it, loses nothing: so are the lists of ``find``, ``ls -R``
and ``tree`` folded. Then each folder keeps its name, how many files of which ending it holds, and
as many of their names as there is room for. A long listing (``ls -l``) is told by its rows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from kvagent.shorten.beginning import beginning
from kvagent.shorten.marker import marker
from kvagent.shorten.result import Shortened
from kvagent.shorten.rows import choose, rows_of
from kvagent.shorten.source import names_one_of

_COMMANDS = frozenset(("fd", "fdfind", "find", "glob", "list", "ls", "tree"))
_FEWEST = 8  # entries
_SHARE = 0.9  # of the lines
_LONGEST_PATH = 500
_MOST_BESIDE = 400  # characters of lines that are no entries, above and below
_LEAST_ROOM = 200
_ENDINGS = 4  # so many are counted one by one

_NAME = r"[^\s/\\:*?\"'<>|,;(){}=`](?:[^/\\:*?\"<>|,;{}=`\n]*[^\s/\\:*?\"<>|,;{}=`])?"
_PATH = re.compile(rf"(?P<folder>(?:[A-Za-z]:[\\/]|/|~/)?(?:{_NAME}[/\\])*)(?P<name>{_NAME})?")
_PLAIN = re.compile(r"[\w.@+~-]+")
_BRANCH = re.compile(
    r"(?P<depth>(?:[│|](?:   |\u00a0\u00a0 )|    )*)(?:├──|└──|\|--|`--) (?P<name>.*)"
)
_LONG = re.compile(
    r"(?P<mode>[-dlbcps][-rwxsStT]{9}[.+@]?) +(?P<links>\d+) +(?P<owner>\S+) +(?P<group>\S+) +"
    r"(?P<size>[\d.,]+[KMGTP]?) +(?P<date>\w{3} +\d+ +[\d:]+|\d{4}-\d\d-\d\d \d\d:\d\d\S*(?: [+-]\d+)?)"
    r" (?P<name>.+)"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SIZES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


@dataclass(frozen=True, slots=True)
class _Listing:
    """The names under each folder, in the order of the source, and what stood around them."""

    before: str
    folders: dict[str, list[str]]
    after: str
    total: int
    own_lines: frozenset[str]
    """The folders that were entries themselves: their names above their files tell them."""


def lossless(
    text: str, *, handle: str | None = None, source: str | None = None
) -> Shortened | None:
    """The paths folded by folder; None where the text is no list of files, or no shorter so."""
    listing = _read(text, source)
    if listing is not None:
        whole = _whole(listing, handle)
    else:
        long = _read_long(text)
        if long is None or long.in_folders:
            return None
        whole = _whole_long(long, handle)
    return whole if len(whole.text) < len(text) else None


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,
    known: AbstractSet[str] = frozenset(),
) -> Shortened | None:
    """Shortens a list of files to at most `budget` characters; None for other texts."""
    if budget < _LEAST_ROOM:
        return None
    listing = _read(text, source)
    if listing is not None:
        whole = _whole(listing, handle, min(budget, len(text)))
        return whole if len(whole.text) <= budget else _folded(listing, budget, handle)
    long = _read_long(text)
    if long is None:
        return None
    whole = _whole_long(long, handle)
    if len(whole.text) <= budget and not long.in_folders:
        return whole
    return _chosen_long(long, budget, handle, known)


# -- reading


def _read(text: str, source: str | None) -> _Listing | None:
    start = list(filter(None, beginning(text)))
    if len(start) < _FEWEST:
        return None
    least = _SHARE / 2 * len(start)
    if sum(map(bool, map(_BRANCH.match, start))) > least:
        return _tree(text.rstrip("\n").split("\n"))
    listed = names_one_of(source, _COMMANDS)
    paths = start if listed else [line for line in start if "/" in line or "\\" in line]
    if len(paths) > least and sum(_is_path(line, listed) for line in paths) > least:
        return _paths(text.rstrip("\n").split("\n"), listed)
    return None


def _is_path(line: str, listed: bool) -> bool:
    """Whether a line is a path, and only that: without a folder, only where files were listed."""
    if "/" not in line and "\\" not in line:
        return listed and _PLAIN.fullmatch(line) is not None
    if listed and " " not in line and "\t" not in line:
        return True
    if len(line) > _LONGEST_PATH:
        return False
    match = _PATH.fullmatch(line)
    # A sentence may hold a path; one with more blanks than folders is no path.
    return match is not None and line.count(" ") <= line.count("/") + line.count("\\")


def _paths(lines: Sequence[str], listed: bool) -> _Listing | None:
    """From one path a line, and from ``ls -R``: a folder with a colon, and its names below."""
    folders: dict[str, list[str]] = {}
    others: list[tuple[int, str]] = []
    under = ""
    total = 0
    for index, line in enumerate(lines):
        if line.endswith(":") and _is_path(line[:-1], listed=True) and listed:
            under = line[:-1].rstrip("/") + "/"
            folders.setdefault(under, [])
        elif not line:
            continue
        elif _is_path(line, listed):
            cut = max(line.rstrip("/\\").rfind("/"), line.rstrip("/\\").rfind("\\")) + 1
            folders.setdefault(under + line[:cut], []).append(line[cut:])
            total += 1
        else:
            others.append((index, line))
    return _listing(lines, folders, others, total)


def _tree(lines: Sequence[str]) -> _Listing | None:
    """From what ``tree`` draws."""
    folders: dict[str, list[str]] = {}
    others: list[tuple[int, str]] = []
    path: list[str] = []
    total = 0
    matches = [_BRANCH.fullmatch(line) for line in lines]
    first = next((index for index, match in enumerate(matches) if match is not None), 0)
    root = lines[first - 1].rstrip("/") + "/" if first else ""
    depths = [len(match["depth"]) // 4 if match is not None else -1 for match in matches]
    for index, (line, match) in enumerate(zip(lines, matches, strict=True)):
        if match is None:
            if line and index != first - 1:
                others.append((index, line))
            continue
        depth, name = depths[index], match["name"]
        path[depth:] = [name.rstrip("/") + "/"]
        folder = root + "".join(path[:depth])
        total += 1
        folders.setdefault(folder, []).append(name)
        if index + 1 < len(lines) and depths[index + 1] > depth:
            folders.setdefault(folder + path[-1], [])
    return _listing(lines, folders, others, total)


def _listing(
    lines: Sequence[str],
    folders: dict[str, list[str]],
    others: Sequence[tuple[int, str]],
    total: int,
) -> _Listing | None:
    middle = len(lines) // 2
    before = "\n".join(line for index, line in others if index < middle)
    after = "\n".join(line for index, line in others if index >= middle)
    filled = sum(line != "" for line in lines)
    if total < _FEWEST or len(others) > (1 - _SHARE) * filled:
        return None
    if len(before) > _MOST_BESIDE or len(after) > _MOST_BESIDE:
        return None
    own_lines: set[str] = set()
    for folder, names in folders.items():
        files: list[str] = []
        for name in names:
            path = f"{folder}{name.rstrip('/')}/"
            if path in folders and path not in own_lines:
                own_lines.add(path)
            else:
                files.append(name)
        folders[folder] = files
    return _Listing(before, folders, after, total, frozenset(own_lines))


# -- writing


def _whole(listing: _Listing, handle: str | None, budget: int = 0) -> Shortened:
    """All of it; paths stand in full where they cost least, as far as `budget` goes: only so can
    they be found and copied."""
    head = marker(listing.total, listing.total, "entries", handle, ["folded by folder"])
    folded = {path: _folder(path, names) for path, names in listing.folders.items()}
    around = len(head) + len(listing.before) + len(listing.after) + 2
    left = budget - around - sum(len(line) + 1 for lines in folded.values() for line in lines)
    costs = {
        path: len(path) * (len(names) - 1) - 1
        for path, names in listing.folders.items()
        if len(names) > 1 and path
    }
    for path in sorted(costs, key=lambda path: costs[path] / len(listing.folders[path])):
        if costs[path] <= left:
            left -= costs[path]
            folded[path] = [path + name for name in listing.folders[path]]
    lines = [line for lines in folded.values() for line in lines]
    text = "\n".join(filter(None, [head, listing.before, *lines, listing.after]))
    return Shortened(text, listing.total, 0, "entries", lossless=True)


def _folder(folder: str, names: Sequence[str]) -> list[str]:
    """The folder's name, and below it the names in it: in one line, if none has a blank."""
    if len(names) == 1:
        return [folder + names[0]]
    heading = [folder or "./"] if folder or names else []
    if any(" " in name for name in names):
        return [*heading, *(f" {name}" for name in names)]
    return [*heading, " " + " ".join(names)] if names else heading


@dataclass
class _Folder:
    """A folder with all that it stands for: `below` it, `untold` have a line but no name here."""

    path: str
    names: list[str]
    below: int = 0
    untold: int = 0

    def lines(self, shown: int) -> list[str]:
        """The folder with the first `shown` of its names, and what the others are."""
        if self.below:
            return [f"{self.path or './'} and {self.below} below ({self._counts})"]
        if shown >= len(self.names) or len(self.names) == 1:
            return _folder(self.path, self.names)
        first = [" " + " ".join(self.names[:shown])] if shown else []
        return [f"{self.path or './'} ({self._counts})", *first]

    def size(self, shown: int) -> int:
        return sum(len(line) + 1 for line in self.lines(shown))

    def dropped(self, shown: int) -> int:
        if self.below:
            return len(self.names) + self.untold
        return 0 if len(self.names) == 1 else max(0, len(self.names) - shown)

    @cached_property
    def _counts(self) -> str:
        """How many files of which ending; asked for when all its names are there."""
        return f"{len(self.names)}: {_endings(self.names)}" if self.names else "no files"


def _folded(listing: _Listing, budget: int, handle: str | None) -> Shortened | None:
    """Every folder with as many names as all can have, deep ones told by those above them."""
    total = listing.total
    notes = ["folded by folder"]
    room = budget - len(marker(0, total, "entries", handle, notes)) - len(str(total)) - 3
    room -= len(listing.before) + len(listing.after)
    folders = _that_fit(listing, room)
    if folders is None:
        return None
    most = max(len(folder.names) for folder in folders)
    shown = bisect_right(
        range(most + 1), room, key=lambda count: sum(folder.size(count) for folder in folders)
    )
    shown = max(0, shown - 1)
    left = room - sum(folder.size(shown) for folder in folders)
    lines: list[str] = []
    dropped = 0
    for folder in folders:
        more = folder.size(shown + 1) - folder.size(shown)
        count = shown + 1 if 0 < more <= left else shown
        left -= folder.size(count) - folder.size(shown)
        lines += folder.lines(count)
        dropped += folder.dropped(count)
    around = filter(None, [listing.before, *lines, listing.after])
    text = "\n".join([marker(total - dropped, total, "entries", handle, notes), *around])
    return Shortened(text, total - dropped, dropped, "entries", lossless=False)


def _that_fit(listing: _Listing, room: int) -> list[_Folder] | None:
    """The folders, deep ones counted with those above them as far as it must be; None if even the
    topmost do not fit."""
    folders = [_Folder(path, names) for path, names in listing.folders.items()]
    depth = max(len(_parts(path)) for path in listing.folders)
    while sum(folder.size(0) for folder in folders) > room:
        depth -= 1
        if depth < 0:
            return None
        merged: dict[str, _Folder] = {}
        for path, names in listing.folders.items():
            above = "".join(_parts(path)[:depth])
            folder = merged.setdefault(above, _Folder(above, []))
            folder.names += names
            folder.below += above != path
            folder.untold += above != path and path in listing.own_lines
        folders = list(merged.values())
    return folders


def _parts(path: str) -> list[str]:
    return re.findall(r"[^/\\]*[/\\]", path)


def _endings(names: Sequence[str]) -> str:
    counts = Counter(_ending(name) for name in names)
    parts = [f"{count} {ending}" for ending, count in counts.most_common(_ENDINGS)]
    others = len(names) - sum(count for _, count in counts.most_common(_ENDINGS))
    return ", ".join([*parts, f"{others} others"] if others else parts)


def _ending(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return f".{ending}" if dot and stem and ending.isalnum() and len(ending) < 8 else "others"


# -- ls -l


@dataclass(frozen=True, slots=True)
class _Long:
    """The entries of ``ls -l``: as they were matched, as they are shown, and the lines above."""

    matches: Sequence[re.Match[str]]
    head: Sequence[str]
    texts: Sequence[str]
    in_folders: bool
    """Whether names bear their folder's; then the lines of the folders themselves are left out."""


def _read_long(text: str) -> _Long | None:
    if not any(map(_LONG.fullmatch, beginning(text))):
        return None
    matches: list[re.Match[str]] = []
    names: list[str] = []
    beside: list[str] = []
    under = ""
    for line in text.rstrip("\n").split("\n"):
        match = _LONG.fullmatch(line)
        if match is not None:
            matches.append(match)
            names.append(under + match["name"])
        elif line.endswith(":"):  # ls -lR
            under = line[:-1].rstrip("/") + "/"
        elif line and not (under and line.startswith("total ")):
            beside.append(line)
    if len(matches) < _FEWEST or sum(map(len, beside)) > _MOST_BESIDE:
        return None
    owners = {(match["owner"], match["group"]) for match in matches}
    if len(owners) == 1:
        beside.insert(0, "all of " + " ".join(owners.pop()))
        columns = ["mode", "links", "size", "date"]
    else:
        columns = ["mode", "links", "owner", "group", "size", "date"]
    texts = [
        " ".join([*(" ".join(match[column].split()) for column in columns), name])
        for match, name in zip(matches, names, strict=True)
    ]
    return _Long(matches, beside, texts, in_folders=under != "")


def _whole_long(listing: _Long, handle: str | None) -> Shortened:
    total = len(listing.texts)
    lines = [marker(total, total, "entries", handle, ["without padding"]), *listing.head]
    return Shortened("\n".join([*lines, *listing.texts]), total, 0, "entries", lossless=True)


def _chosen_long(
    listing: _Long, budget: int, handle: str | None, known: AbstractSet[str]
) -> Shortened | None:
    total = len(listing.texts)
    room = budget - len(marker(0, total, "entries", handle)) - len(str(total)) - 2
    room -= sum(map(len, listing.head)) + len(listing.head)
    rows = rows_of(listing.texts, room, "entries")
    if rows.room < _LEAST_ROOM / 2:
        return None
    last_line = choose(rows, _striking(listing.matches), known=known)
    kept = len(rows.kept())
    lines = [marker(kept, total, "entries", handle), *listing.head, rows.text(), last_line]
    return Shortened("\n".join(filter(None, lines)), kept, total - kept, "entries", lossless=False)


def _striking(matches: Sequence[re.Match[str]]) -> Iterator[int]:
    """Folders, the newest and the largest."""
    order = range(len(matches))
    newest = sorted(order, key=lambda index: _when(matches[index]["date"]), reverse=True)[:3]
    largest = sorted(order, key=lambda index: _bytes(matches[index]["size"]), reverse=True)[:3]
    yield from newest
    yield from largest
    yield from (index for index in order if matches[index]["mode"][0] == "d")


def _when(date: str) -> tuple[int, int, str]:
    """Sorts dates; one without its year is of the last months."""
    parts = date.split()
    if parts[0].lower() not in _MONTHS:
        return 0, 0, date
    year = int(parts[2]) if parts[2].isdecimal() else 9999
    return year, _MONTHS.index(parts[0].lower()), f"{int(parts[1]):02} {parts[2]}"


def _bytes(size: str) -> float:
    digits = size.rstrip("KMGTP").replace(",", ".") if size[-1] in _SIZES else size.replace(",", "")
    try:
        return float(digits) * _SIZES.get(size[-1], 1)
    except ValueError:
        return 0.0
