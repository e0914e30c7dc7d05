"""How do many JSON objects of one kind read as a table that loses nothing?

A cell holds a string without quotes where it cannot be taken for anything else; what is absent is
empty, so that it differs from null and from "". An object that every row has under one key is
spread over columns with a dot in their names; a column that is the same in all rows stands once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvagent.shorten.json_values import Number, spelled

Path = tuple[str, ...]

ABSENT: Any = object()

_MOST_PARTS = 16  # an object with more keys than this is a map, not a record: it stays one cell
_DEEPEST = 4
_BARE_NAME = re.compile(r"[\w$@-]+")
# What could be taken for a number, a literal, or the beginning of other JSON stands in quotes.
_BARE = re.compile(
    r"(?!(?:true|false|null|NaN|-?Infinity|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\Z)"
    r"[^\s\"{\[,\x00-\x1f][^,\x00-\x1f\x7f\x85\u2028\u2029]*(?<!\s)"
)


@dataclass(frozen=True, slots=True)
class JsonTable:
    """Objects as rows: `cells[row][column]`, and what is the same in all of them."""

    columns: Sequence[str]
    cells: Sequence[Sequence[str]]
    constants: Mapping[str, str]

    def head(self, unit: str) -> str:
        """The lines above the rows."""
        lines = [",".join(self.columns)]
        if self.constants:
            same = ",".join(f"{name}={cell}" for name, cell in self.constants.items())
            lines.insert(0, f"every one of the {unit}: {same}")
        return "\n".join(lines)


def table_of(items: Sequence[dict[str, Any]], keys: Sequence[str] | None = None) -> JsonTable:
    """A table of `items`; `keys`, where given, are the names under which they stand."""
    paths = _columns(items, ())
    columns = [_name(path) for path in paths]
    values = [[_at(item, path) for item in items] for path in paths]
    cells = list(map(_cells, values))
    if keys is not None:
        columns.insert(0, "(key)")
        cells.insert(0, list(map(cell, keys)))
    constants = {
        name: column[0]
        for name, column in zip(columns, cells, strict=True)
        if len(column) > 1 and column[0] != "" and column.count(column[0]) == len(column)
    }
    varying = [
        (name, column) for name, column in zip(columns, cells, strict=True) if name not in constants
    ]
    if not varying:  # all rows are alike: one column tells how many there are
        name = columns[0] if columns else ""
        varying = [(name, cells[0] if cells else [""] * len(items))]
        constants.pop(name, None)
    rows = list(zip(*(column for _, column in varying), strict=True))
    return JsonTable([name for name, _ in varying], rows, constants)


def _columns(items: Sequence[dict[str, Any]], path: Path) -> list[Path]:
    values: dict[str, list[Any]] = {}
    for item in items:
        for key, value in item.items():
            values.setdefault(key, []).append(value)
    columns: list[Path] = []
    for key, column in values.items():
        below = (*path, key)
        if len(below) < _DEEPEST and all(type(value) is dict and value for value in column):
            parts = _columns(column, below)
            if len(parts) <= _MOST_PARTS:
                columns += parts
                continue
        columns.append(below)
    return columns


def _name(path: Path) -> str:
    return ".".join(part if _BARE_NAME.fullmatch(part) else spelled(part) for part in path)


def _at(item: dict[str, Any], path: Path) -> Any:
    value: Any = item
    for key in path:
        value = value.get(key, ABSENT)
        if value is ABSENT:
            break
    return value


def _cells(column: list[Any]) -> list[str]:
    if all(type(value) is Number for value in column):
        return spelled(column)[1:-1].split(",")  # many times faster than one by one
    return list(map(cell, column))


def cell(value: Any) -> str:
    """One value as it stands in a row."""
    if value is ABSENT:
        return ""
    if type(value) is str and _BARE.fullmatch(value):
        return value
    return spelled(value)
