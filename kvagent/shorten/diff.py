"""What of a unified diff stands?

The name of every file with how much changes in it, then what is added and removed, then the nearest
lines around that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kvagent.shorten.clean import clean
from kvagent.shorten.composition import Wish, compose
from kvagent.shorten.pieces import Pieces
from kvagent.shorten.result import Shortened

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_STARTS = re.compile(r"^(?:diff --git |--- \S.*\n\+\+\+ \S.*\n@@ -\d)", re.MULTILINE)
# What happened to a file, beside its lines.
_MODE = re.compile(
    r"(?:new|deleted) file|rename |copy |old mode|new mode|Binary files|similarity|GIT binary"
)
_NEAR = 2  # lines of context on each side
_FILES, _MODES, _CHANGES = 0.9, 0.1, 1.0  # shares of the room
_WHOLE = 0.75  # of the room: changes that fit into it stand, else those that tell most
_GAP = 12  # characters in the place of lines left out
_LONGEST_LINE = 1000
_FAR_TOO_FEW = 0.1  # of the lines in hunks, even where these have more than they say


@dataclass(slots=True)
class _File:
    """A file of a diff: the line with its name, and how much changes."""

    name: int
    added: int = 0
    removed: int = 0
    hunks: int = 0

    def __str__(self) -> str:
        hunks = f"{self.hunks} hunk{'s' * (self.hunks != 1)}"
        return f"[… +{self.added} -{self.removed}, {hunks}]"


@dataclass(slots=True)
class _Diff:
    """What each line of a diff is, by their indexes.

    `index` are those that say nothing a reader needs: hashes, and the name once more.
    """

    files: list[_File]
    hunks: list[int]
    changes: list[int]
    modes: list[int]
    index: list[int]
    context: list[int]


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,  # noqa: ARG001 - what every shortener is given
    known: AbstractSet[str] = frozenset(),
) -> Shortened | None:
    """Shortens a unified diff to at most `budget` characters; None if `text` is none."""
    if "@@ -" not in text or _STARTS.search(text) is None:
        return None
    cleaned = clean(text)
    lines = cleaned.removesuffix("\n").split("\n")
    if _told_by_hunks(cleaned) < len(lines) * _FAR_TOO_FEW:
        return None
    diff = _read(lines)
    in_diff = len(diff.changes) + len(diff.context) + len(diff.hunks)
    if not diff.files or in_diff < len(lines) / 2 or len(max(lines, key=len)) > _LONGEST_LINE:
        return None
    texts = list(lines)
    for file in diff.files:
        texts[file.name] = f"{lines[file.name]} {file}"
    pieces = Pieces(texts, range(1, len(lines) + 2), {}, 0, ended=cleaned.endswith("\n"))
    size = sum(len(texts[index]) + 1 for index in (*diff.changes, *diff.hunks))
    size += sum(len(texts[file.name]) + 1 for file in diff.files)
    size += 2 * _GAP * (len(diff.hunks) + len(diff.files))
    first = [*diff.hunks, *diff.changes] if size <= _WHOLE * budget else []
    wishes = (
        Wish([file.name for file in diff.files], _FILES, through=True),
        Wish(diff.modes, _MODES, through=True),
        Wish(first, _CHANGES, through=True),
        Wish(_nearest(diff, len(lines)) if first else (), _CHANGES, through=True),
    )
    dull = diff.index if first else (*diff.index, *diff.context, *diff.hunks)
    for index in dull:  # only what changes is worth its room
        lines[index] = ""
    return compose(
        pieces,
        budget,
        wishes,
        total=len(lines),
        handle=handle,
        notes=["terminal codes removed"] if cleaned != text else [],
        told="\n".join(lines),
        known=known,
        to_the_ends=False,
    )


def _told_by_hunks(text: str) -> int:
    """How many lines the hunks have by their first lines, those of context twice."""
    return sum(1 + int(old or 1) + int(new or 1) for old, new in _HUNK.findall(text))


def _read(lines: Sequence[str]) -> _Diff:
    """Tells the lines of a diff apart; a hunk has as many as its first line says."""
    diff = _Diff([], [], [], [], [], [])
    old = new = 0
    git = any(line.startswith("diff --git ") for line in lines)
    for index, line in enumerate(lines):
        hunk = _HUNK.match(line)
        if old <= 0 and new <= 0 and hunk is None:
            if line.startswith("diff --git " if git else "+++ "):
                diff.files.append(_File(index))
            elif line.startswith("+++ ") and diff.files and not line.startswith("+++ /dev/null"):
                diff.files[-1].name = index  # says the name once
            elif _MODE.match(line):
                diff.modes.append(index)
            elif line.startswith(("index ", "--- ")):
                diff.index.append(index)
            continue
        if hunk is not None and diff.files:
            old, new = (1 if count is None else int(count) for count in hunk.groups())
            diff.files[-1].hunks += 1
            diff.hunks.append(index)
        elif line.startswith("+"):
            new -= 1
            diff.changes.append(index)
            if diff.files:
                diff.files[-1].added += 1
        elif line.startswith("-"):
            old -= 1
            diff.changes.append(index)
            if diff.files:
                diff.files[-1].removed += 1
        elif not line.startswith("\\"):
            old, new = old - 1, new - 1
            diff.context.append(index)
    return diff


def _nearest(diff: _Diff, count: int) -> list[int]:
    """The lines of context beside a change, then those one further away."""
    context = set(diff.context)
    found: dict[int, None] = {}
    for away in range(1, _NEAR + 1):
        for index in diff.changes:
            for near in (index - away, index + away):
                if 0 <= near < count and near in context:
                    found[near] = None
    return list(found)
