"""What of a JSON text stays: an array of records, an object, or many of them one after another?

Without blanks it is often short enough, and an array of objects is shorter still as a table. Then
of the largest array the rows are chosen; of an object the keys stand and its long values are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from kvagent.shorten.clip import shares
from kvagent.shorten.forms import Form
from kvagent.shorten.json_table import JsonTable, table_of
from kvagent.shorten.json_tree import count_values, cut, fitted
from kvagent.shorten.json_values import documents, spelled
from kvagent.shorten.marker import marker
from kvagent.shorten.result import Shortened, Unit
from kvagent.shorten.rows import Labels, choose, rows_of, special_rows, widest

_LEAST_ROOM = 200  # with less, there is no structure to be shown
_FEWEST_ITEMS = 5
_FEWEST_ENTRIES = 20  # an object with so many objects in it is a collection under keys
_MANY_ENTRIES = 100  # nobody gives an object so many fields: they are entries, whatever they hold
_LONGEST_LABEL = 40
_LABELS = ("id", "(key)", "key", "uuid", "number", "name", "path", "file", "title", "sha", "url")


@dataclass(frozen=True, slots=True)
class _Collection:
    """An array, or an object that is used like one, and what stands around it."""

    value: Any
    items: Sequence[Any]
    unit: Unit
    around: Any
    """The whole value with a note in place of the collection; None where there is nothing else."""
    table: JsonTable | None
    rows: Sequence[str]
    head: str


@dataclass(frozen=True, slots=True)
class _Read:
    """A JSON text, and the shortest form that holds all of it."""

    before: str
    value: Any
    after: str
    collection: _Collection | None
    body: str
    note: str

    def framed(self, *lines: str) -> str:
        """The lines between those that a tool put before and behind its JSON."""
        return "\n".join(filter(None, (self.before, *lines, self.after)))

    def whole(self, handle: str | None) -> Shortened:
        """All of it, under its marker."""
        unit: Unit = "values" if self.collection is None else self.collection.unit
        count = count_values(self.value) if self.collection is None else len(self.collection.items)
        text = self.framed(self.body)
        text = f"{marker(count, count, unit, handle, [self.note])}\n{text}"
        return Shortened(text, count, 0, unit, lossless=True)


def _read(text: str, _source: str | None = None) -> _Read | None:
    found = documents(text)
    if found is None:
        return None
    values = found.values
    value = values if len(values) > 1 else values[0]
    body = "\n".join(map(spelled, values))
    note = "minified"
    collection = _collection(value, len(body))
    if collection is not None and collection.table is not None:
        lines = [spelled(collection.around)] if collection.around is not None else []
        table = "\n".join([*lines, collection.head, *collection.rows])
        if len(table) < len(body):
            body, note = table, "as a table"
    return _Read(found.before, value, found.after, collection, body, note)


def _part(
    read: _Read, budget: int, handle: str | None, known: AbstractSet[str]
) -> Shortened | None:
    if read.collection is not None:
        return _chosen(read, read.collection, budget, handle, known)
    return _cut(read, budget, handle)


# -- an array of which rows are chosen


def _collection(value: Any, size: int) -> _Collection | None:
    """The array that makes up most of a value, wherever it stands."""
    path: list[Any] = []
    found = value
    while not _is_collection(found):
        if not isinstance(found, dict | list) or not found:
            return None
        children = list(found.items() if isinstance(found, dict) else enumerate(found))
        sizes = [len(spelled(child)) for _, child in children]
        largest = max(range(len(sizes)), key=sizes.__getitem__)
        if sizes[largest] * 2 < size:
            return None
        key, found = children[largest]
        path.append(key)
    unit: Unit = "entries" if isinstance(found, dict) else "items"
    around = _replaced(value, path, f"[{len(found)} {unit} below]") if path else None
    records, keys = _records(found)
    if records:
        table = table_of(records, keys)
        rows = list(map(",".join, table.cells))
        if sum(map(len, rows)) < len(spelled(found)):
            unit = "rows" if len(rows) > len(found) else unit
            return _Collection(found, records, unit, around, table, rows, table.head(unit))
    return _plain(found, unit, around)


def _plain(found: Any, unit: Unit, around: Any) -> _Collection:
    if isinstance(found, dict):
        rows = [f"{spelled(key)}:{spelled(item)}" for key, item in found.items()]
        return _Collection(found, list(found.values()), unit, around, None, rows, "")
    return _Collection(found, found, unit, around, None, list(map(spelled, found)), "")


def _records(found: Any) -> tuple[list[dict[str, Any]], list[str] | None]:
    """The objects that can be rows, and the key of each in what holds them; none where it holds
    anything else. Of arrays of objects each object is a row."""
    if isinstance(found, dict):
        alike = all(type(item) is dict and item for item in found.values())
        return (list(found.values()), list(found)) if alike else ([], None)
    if all(type(item) is dict and item for item in found):
        return found, None
    if all(type(item) is list and item for item in found) and all(
        type(part) is dict and part for item in found for part in item
    ):
        keys = [f"{i}.{j}" for i, item in enumerate(found) for j in range(len(item))]
        return [part for item in found for part in item], keys
    return [], None


def _is_collection(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) >= _FEWEST_ITEMS
    if not isinstance(value, dict) or len(value) < _FEWEST_ENTRIES:
        return False
    return len(value) >= _MANY_ENTRIES or all(
        type(item) is dict and item for item in value.values()
    )


def _replaced(value: Any, path: Sequence[Any], note: str) -> Any:
    """`value` with `note` in place of what stands at `path`; nothing is changed in it."""
    if not path:
        return note
    result = value.copy()
    result[path[0]] = _replaced(value[path[0]], path[1:], note)
    return result


def _chosen(
    read: _Read,
    collection: _Collection,
    budget: int,
    handle: str | None,
    known: AbstractSet[str],
) -> Shortened | None:
    total, unit = len(collection.items), collection.unit
    notes = ["as a table"] if collection.table is not None else []
    longest = len(marker(0, total, unit, handle, [*notes, f"{total} more cut", "the rest cut"]))
    room = budget - longest - len(str(total)) - len(read.framed("\n"))
    head: list[str] = []
    around_cut = False
    if collection.around is not None:
        around, _ = fitted(collection.around, room // 4)
        around_cut = len(around) < len(spelled(collection.around))
        head.append(around)
    head += collection.head.splitlines()
    room -= sum(map(len, head)) + len(head)
    if room < budget / 2 and collection.table is not None:
        unit = "items" if isinstance(collection.value, list) else "entries"
        plain = _plain(collection.value, unit, collection.around)
        return _chosen(read, plain, budget, handle, known)
    if room < _LEAST_ROOM / 2:
        return None
    texts, were_cut = _within(collection, room)
    rows = rows_of(texts, room, unit)
    if rows.room < 0:
        return None
    special: Iterable[int] = ()
    if collection.table is not None:
        special = special_rows(list(zip(*collection.table.cells, strict=True)))
    cut_texts = "\n".join(collection.rows[row] for row in were_cut)
    last_lines = choose(rows, special, labels=_labels(collection), cut=cut_texts, known=known)
    standing = rows.kept()
    cut_ones = len(set(were_cut).intersection(standing))
    kept = len(standing) - cut_ones
    notes += [f"{cut_ones} more cut"] if cut_ones else []
    notes += ["the rest cut"] if around_cut else []
    shown = read.framed(*head, rows.text(), last_lines)
    text = f"{marker(kept, total, unit, handle, notes)}\n{shown}"
    return Shortened(text, kept, total - kept, unit, lossless=False)


def _within(collection: _Collection, room: int) -> tuple[list[str], list[int]]:
    """The rows, those far longer than others with their long cells cut, and which those are."""
    texts = list(collection.rows)
    width = widest(list(map(len, texts)), room)
    keys = list(collection.value) if isinstance(collection.value, dict) else []
    were_cut: list[int] = []
    for index, text in enumerate(texts):
        if len(text) <= width:
            continue
        were_cut.append(index)
        if collection.table is None:
            key = f"{spelled(keys[index])}:" if keys else ""
            texts[index] = key + fitted(collection.items[index], width - len(key), depth=1)[0]
            continue
        cells = collection.table.cells[index]
        given = shares(list(map(len, cells)), width - len(cells))
        texts[index] = ",".join(
            cell if len(cell) <= share else _cut_cell(cell, share)
            for cell, share in zip(cells, given, strict=True)
        )
    return texts, were_cut


def _cut_cell(cell: str, room: int) -> str:
    """The cell in so many characters: an object or array with its keys, a string in quotes."""
    if cell.startswith(("{", "[")):
        found = documents(cell)
        if found is not None:
            return fitted(found.values[0], room, depth=1)[0]
    if cell.startswith('"'):
        with suppress(orjson.JSONDecodeError):
            return cut(orjson.loads(cell), room)
    return cut(cell, room)


def _labels(collection: _Collection) -> Labels | None:
    """The column that names the rows: its cells are short, and no two are the same."""
    if collection.table is None:
        keys = list(collection.value) if isinstance(collection.value, dict) else []
        return Labels("key", keys) if keys else None
    columns = collection.table.columns
    order = sorted(
        range(len(columns)),
        key=lambda index: _LABELS.index(columns[index]) if columns[index] in _LABELS else 99,
    )
    for index in order:
        texts = [row[index] for row in collection.table.cells]
        short = sum(map(len, texts)) <= _LONGEST_LABEL * len(texts)
        if short and "" not in texts and len(set(texts)) == len(texts):
            return Labels(columns[index], texts)
    return None


# -- a value of which the keys stand


def _cut(read: _Read, budget: int, handle: str | None) -> Shortened | None:
    total = count_values(read.value)
    notes = ["long values cut"]
    longest = len(marker(0, total, "values", handle, notes)) + len(str(total))
    room = budget - longest - len(read.framed("\n"))
    aimed = room
    for _ in range(3):  # the room of a value is not kept to the character
        body, kept = fitted(read.value, aimed)
        if len(body) <= room:
            head = marker(kept, total, "values", handle, notes)
            text = f"{head}\n{read.framed(body)}"
            return Shortened(text, kept, total - kept, "values", lossless=False)
        aimed -= (len(body) - room) * 5 // 4 + 1
    return None


_JSON = Form(_read, _Read.whole, _part, least=_LEAST_ROOM)

lossless = _JSON.lossless
"""JSON without blanks, or as a table, whichever is shorter; None where it is not JSON, or neither
is shorter."""

shorten = _JSON.shorten
"""Shortens JSON to at most `budget` characters; None for what is not JSON."""
