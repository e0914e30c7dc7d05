"""Which rows of a table stay (CSV, TSV, or drawn with bars), and what do the others hold?

Padding, and columns in which every row says the same, go first: that loses nothing. Then rows are
chosen, and a line says of each column how far it reaches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kvagent.shorten.beginning import beginning
from kvagent.shorten.clip import clip, shares
from kvagent.shorten.forms import Form
from kvagent.shorten.marker import marker
from kvagent.shorten.result import Shortened
from kvagent.shorten.rows import choose, number_in, rows_of, special_rows, widest
from kvagent.shorten.source import has_suffix

_FEWEST_ROWS = 6
_HEADER_WITHIN = 12  # lines
_MOST_BESIDE = 400  # characters above the header, or below the last row
_LEAST_ROOM = 300
_FOR_COLUMNS = 0.2  # of the room: what is said of the columns
_KINDS = 8  # a column with so many different cells, or fewer, tells kinds

_DELIMITERS = {"\t": ("tsv", "tab"), ",": (".csv",), ";": (".csv",), "|": ()}
_COLUMN = re.compile(r"(?:\s*\d+→)?[^\W\d][\w .()%/#$-]{0,40}")  # a viewer may number the lines
_RULE = re.compile(r"[\s|+:=-]*-[\s|+:=-]*")  # between the header and the rows, or around them


@dataclass(frozen=True, slots=True)
class _Table:
    """The cells of the rows as the source spells them, without the padding of drawn tables."""

    before: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    after: str
    delimiter: str
    constants: Mapping[str, str]
    """What every row has, by column; those columns are not among the others."""

    def head(self) -> list[str]:
        """The lines above the rows."""
        lines = [self.before] if self.before else []
        if self.constants:
            pairs = (f"{name}={cell}" for name, cell in self.constants.items())
            lines.append(f"every row: {self.delimiter.join(pairs)}")
        return [*lines, self.delimiter.join(self.header)]


# -- reading


def _read(text: str, source: str | None) -> _Table | None:
    start = "\n".join(beginning(text))
    for delimiter, suffixes in _DELIMITERS.items():
        if start.count(delimiter) >= _FEWEST_ROWS and _begins(start, delimiter):
            table = _split(text, delimiter, named=has_suffix(source, suffixes))
            if table is not None:
                return table
    return None


def _begins(start: str, delimiter: str) -> bool:
    """Whether the first lines of a text may be those of a table: a header, and rows as wide."""
    lines = start.split("\n")
    if '"' not in start:
        width, count = Counter(line.count(delimiter) for line in lines).most_common(1)[0]
        if not width or count * 2 < len(lines):
            return False
    return any(
        delimiter in line and _is_header(_cells(line, delimiter)) for line in lines[:_HEADER_WITHIN]
    )


def _split(text: str, delimiter: str, *, named: bool) -> _Table | None:
    lines = _lines(text, delimiter)
    split = [_cells(line, delimiter) for line in lines]
    width = Counter(map(len, split)).most_common(1)[0][0]
    if width == 1:
        return None
    fits = [len(cells) == width for cells in split]
    first = fits.index(True)
    last = len(fits) - 1 - fits[::-1].index(True)
    before, after = "\n".join(lines[:first]), "\n".join(lines[last + 1 :])
    inside = split[first : last + 1]
    if delimiter == "|":
        inside = [
            cells
            for cells, line in zip(inside, lines[first : last + 1], strict=True)
            if not _RULE.fullmatch(line)
        ]
        before, after = (
            "\n".join(line for line in part.split("\n") if not _RULE.fullmatch(line))
            for part in (before, after)
        )
    header, rows = inside[0], inside[1:]
    if len(before.strip()) > _MOST_BESIDE or len(after.strip()) > _MOST_BESIDE:
        return None
    if len(rows) < _FEWEST_ROWS or any(len(cells) != width for cells in rows):
        return None
    if not _is_header(header) or not (named or _is_data(rows, delimiter)):
        return None
    columns = zip(*rows, strict=True)
    same = [at for at, column in enumerate(columns) if column.count(column[0]) == len(rows)]
    if len(same) == width:
        same = same[1:]
    constants = {header[column]: rows[0][column] for column in same}
    varying = [column for column in range(width) if column not in same]
    if same:
        rows = [[row[column] for column in varying] for row in rows]
        header = [header[column] for column in varying]
    return _Table(before.strip("\n"), header, rows, after.strip("\n"), delimiter, constants)


def _lines(text: str, delimiter: str) -> list[str]:
    """The lines; those within the quotes of one cell are one."""
    if delimiter == "|" or '"' not in text:
        return text.split("\n")
    records: list[str] = []
    quotes = 0
    for line in text.split("\n"):
        if quotes % 2:
            records[-1] += "\n" + line
        else:
            records.append(line)
            quotes = 0
        quotes += line.count('"')
    return records


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == "|":
        cells = [cell.strip() for cell in line.split("|")]
        if line.lstrip().startswith("|"):
            cells = cells[1:]
        return cells[:-1] if line.rstrip().endswith("|") and cells else cells
    if '"' not in line:
        return line.removesuffix("\r").split(delimiter)
    cells = [""]
    quoted = False
    for part in line.removesuffix("\r").split(delimiter):
        cells[-1] = cells[-1] + delimiter + part if quoted else part
        quoted = cells[-1].count('"') % 2 == 1
        if not quoted:
            cells.append("")
    return cells if quoted else cells[:-1]


def _is_header(cells: Sequence[str]) -> bool:
    """Names of columns: short, different, and of letters in the main."""
    return all(_COLUMN.fullmatch(cell.strip(' "')) for cell in cells) and len(set(cells)) == len(
        cells
    )


def _is_data(rows: Sequence[Sequence[str]], delimiter: str) -> bool:
    """Whether the cells are those of a table, and not the parts of sentences or of code."""
    if delimiter == "|" or delimiter == "\t":
        return True
    spaced = sum(cell.startswith(" ") for row in rows for cell in row[1:])
    return spaced * 2 < len(rows) * (len(rows[0]) - 1)


# -- writing


def _whole(table: _Table, handle: str | None) -> Shortened:
    total = len(table.rows)
    note = "without padding" if table.delimiter == "|" else "what all share said once"
    lines = [
        marker(total, total, "rows", handle, [note]),
        *table.head(),
        *map(table.delimiter.join, table.rows),
    ]
    lines += [table.after] if table.after else []
    return Shortened("\n".join(lines), total, 0, "rows", lossless=True)


def _chosen(
    table: _Table, budget: int, handle: str | None, known: AbstractSet[str]
) -> Shortened | None:
    total = len(table.rows)
    notes = ["without padding"] if table.delimiter == "|" else []
    longest = len(marker(0, total, "rows", handle, [*notes, f"{total} more cut"]))
    longest += len(str(total))
    head = table.head()
    room = budget - longest - sum(map(len, head)) - len(head) - len(table.after) - 2
    if room < _LEAST_ROOM / 2:
        return None
    columns = list(zip(*table.rows, strict=True))
    about = _about(table.header, columns, int(room * _FOR_COLUMNS))
    head += [about] if about else []
    room -= len(about) + 1 if about else 0
    whole = list(map(table.delimiter.join, table.rows))
    width = widest(list(map(len, whole)), room)
    texts = [
        (text if len(text) <= width else _cut(row, table.delimiter, width)).replace("\n", "⏎")
        for row, text in zip(table.rows, whole, strict=True)
    ]
    long = {row for row, text in enumerate(whole) if text != texts[row]}
    rows = rows_of(texts, room, "rows")
    if rows.room < 0:
        return None
    cut_texts = "\n".join(whole[row] for row in sorted(long))
    last_line = choose(rows, special_rows(columns), cut=cut_texts, known=known)
    standing = rows.kept()
    cut = sum(row in long for row in standing)
    kept = len(standing) - cut
    notes = [*notes, f"{cut} more cut"] if cut else notes
    lines = [marker(kept, total, "rows", handle, notes), *head, rows.text(), last_line, table.after]
    text = "\n".join(filter(None, lines))
    return Shortened(text, kept, total - kept, "rows", lossless=False)


def _cut(row: Sequence[str], delimiter: str, width: int) -> str:
    """A row with its long cells cut, so that the others stay in their columns."""
    given = shares(list(map(len, row)), width - len(row))
    return delimiter.join(clip(cell, share) for cell, share in zip(row, given, strict=True))


def _about(header: Sequence[str], columns: Sequence[Sequence[str]], room: int) -> str:
    """One line that says how far each column reaches, as many columns as it holds."""
    line = "[all rows:"
    for name, column in zip(header, columns, strict=True):
        part = f" {name} {_reach(column)};"
        if len(line) + len(part) <= room:
            line += part
    return line.removesuffix(";") + "]" if line.endswith(";") else ""


def _reach(column: Sequence[str]) -> str:
    numbers = [(value, cell) for cell in column if (value := number_in(cell)) is not None]
    counts = Counter(column)
    if len(numbers) * 2 > len(column):
        low, high = min(numbers)[1].strip(), max(numbers)[1].strip()
        empty = len(column) - len(numbers)
        others = f", {empty} no numbers" if empty else ""
        return f"{low} to {high}, {len(counts)} distinct{others}"
    if len(counts) <= _KINDS:
        kinds = (f"{clip(cell, 30) or 'empty'} {count}" for cell, count in counts.most_common())
        return ", ".join(kinds).replace("\n", " ")
    return f"{len(counts)} distinct"


_TABLE = Form(_read, _whole, _chosen, least=_LEAST_ROOM)

lossless = _TABLE.lossless
"""The table without padding and with what all rows share once; None where it is none, or no
shorter so."""

shorten = _TABLE.shorten
"""Shortens a table to at most `budget` characters; None for what is none."""
