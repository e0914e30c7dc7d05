"""Which of many rows stand, where each row is a line and all are alike?

The first and the last, those that report an error, those that differ from all others, and then
those that hold most of what cannot be guessed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain

from kvagent.shorten.alarms import alarms
from kvagent.shorten.clip import shares
from kvagent.shorten.density import Density
from kvagent.shorten.identifiers import identifiers, weights_of, words_of
from kvagent.shorten.marker import footer
from kvagent.shorten.pieces import Pieces
from kvagent.shorten.result import Unit
from kvagent.shorten.selection import Selection

_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*", re.ASCII)
_KINDS = 8  # a column with so many different cells, or fewer, tells kinds
_RARE = 0.03
_SAMPLE = 40  # cells, which tell whether a column may be one of numbers
_ROWS_SEEN = 8  # a row may take its share of so many, however long the others are
_ENDS, _ALARMS, _SPECIAL, _FOOTER = 0.1, 0.2, 0.2, 0.25  # shares of the room


@dataclass(frozen=True, slots=True)
class Labels:
    """What each row is called, in a column of that name."""

    name: str
    texts: Sequence[str]

    def of_others(self, rows: Selection, room: int) -> str:
        """A line with the labels of the rows that do not stand, as many as it holds; "" for none.

        Whole numbers in a row become a range.
        """
        others = [text for row, text in enumerate(self.texts) if row not in rows]
        parts = list(_ranges(others))
        opening = f"[{self.name} of {len(others)} others: "
        size = len(opening) + 1
        shown: list[str] = []
        for part in parts:
            size += len(part) + 1
            if size > room - (len(", …") if len(shown) + 1 < len(parts) else 0):
                break
            shown.append(part)
        if not shown:
            return ""
        return f"{opening}{','.join(shown)}{',…' if len(shown) < len(parts) else ''}]"


def _ranges(texts: Sequence[str]) -> Iterator[str]:
    """The texts, with `3-7` for five whole numbers that follow each other."""
    begin = 0
    while begin < len(texts):
        end = begin + 1
        if texts[begin].isdecimal() and texts[begin][0] != "0" and len(texts[begin]) < 20:
            first = int(texts[begin])
            while end < len(texts) and texts[end] == str(first + end - begin):
                end += 1
        if end - begin > 2:
            yield f"{texts[begin]}-{texts[end - 1]}"
        else:
            yield from texts[begin:end]
        begin = end


def rows_of(texts: Sequence[str], room: int, unit: Unit, *, gaps: bool = True) -> Selection:
    """None of the rows stands yet; `gaps` says whether those left out are told between them.

    Its `room` is below zero where it does not even hold the gap for all of them.
    """
    lines = range(1, len(texts) + 2)
    pieces = Pieces(texts, lines, {}, split=0, ended=False, numbered=not gaps)
    return Selection(pieces, unit, room)


def choose(
    rows: Selection,
    special: Iterable[int] = (),
    *,
    labels: Labels | None = None,
    told: Sequence[str] | None = None,
    cut: str = "",
    known: AbstractSet[str] = frozenset(),
) -> str:
    """Takes rows until their room is full, and gives lines with names of the others, or "".

    `special` are rows that differ from the others, the most striking first. The names are `labels`,
    where there are any, and identifiers that stand in no row taken, among them those of `cut`: what
    was cut from the rows beforehand. `told` is what the rows tell, if not all of them; the words of
    `known` stand elsewhere.
    """
    texts = rows.pieces.texts
    room = rows.room
    for_footer = int(room * _FOOTER)
    rows.room -= for_footer
    for row in dict.fromkeys((0, len(rows) - 1)):
        rows.take(row)
    take_within(rows, _from_both_ends(len(rows)), int(room * _ENDS))
    take_within(rows, alarms(texts), int(room * _ALARMS))
    take_within(rows, special, int(room * _SPECIAL))
    density = Density(rows, "\n".join(texts if told is None else told), known)
    in_cut = list(identifiers(weights_of(words_of(cut)))) if cut else []

    def lines(room: int) -> str:
        told = labels.of_others(rows, room) if labels is not None else ""
        standing = rows.standing() + told
        left_out = chain(density.left_out(), in_cut)
        named = footer(left_out, standing, room - len(told) - 1 if told else room)
        return "\n".join(filter(None, (told, named)))

    density.fill()
    first = lines(for_footer - 1)
    # What the lines did not need goes to more rows, and they make them shorter still.
    rows.room += for_footer - len(first) - 1
    density.fill()
    rows.extend()
    return lines(min(for_footer - 1, rows.room + len(first)))


def widest(sizes: Sequence[int], room: int) -> int:
    """How long a row may be: only one that is far longer than the others is cut."""
    usual = sorted(sizes)[len(sizes) // 2] if sizes else 0
    # Where all of them stand if only the longest are cut, these share what the others leave.
    level = max(shares(sizes, int(room * (1 - _FOOTER)) - 2 * len(sizes)), default=0)
    return max(80, room // _ROWS_SEEN, min(2 * usual, room // 3), level)


def take_within(rows: Selection, wanted: Iterable[int], share: int) -> None:
    """Takes the rows `wanted`, in this order, that fit into `share` characters."""
    until = rows.room - share
    for row in wanted:
        if row not in rows and rows.room - rows.cost(row) >= until:
            rows.take(row)
        if rows.room - until < 2:
            break


def _from_both_ends(count: int) -> Iterator[int]:
    """0, the last one, 1, the last but one, and so on; a few are enough."""
    for rank in range(min(count // 2, 20)):
        yield rank
        yield count - 1 - rank


def special_rows(columns: Sequence[Sequence[str]]) -> Iterator[int]:
    """Rows with the least and the most of a number, and with what is rare in a column of kinds."""
    for column in columns:
        numbers: dict[int, float] = {}
        if sum(number_in(cell) is not None for cell in column[:_SAMPLE]) * 4 > len(
            column[:_SAMPLE]
        ):
            values = enumerate(map(number_in, column))
            numbers = {row: value for row, value in values if value is not None}
        if len(numbers) * 2 > len(column):
            if len(set(numbers.values())) > 2:
                yield max(numbers, key=numbers.__getitem__)
                yield min(numbers, key=numbers.__getitem__)
            continue
        counts = Counter(column)
        if len(counts) <= max(_KINDS, len(column) // 10):
            rare = max(1, _RARE * len(column))
            first = {cell: row for row, cell in reversed(list(enumerate(column)))}
            yield from (row for cell, row in first.items() if counts[cell] <= rare)
            yield from (row for cell, row in first.items() if counts[cell] > rare)


def number_in(cell: str) -> float | None:
    """What a cell amounts to that is a number; None for anything else."""
    return float(cell) if _NUMBER.fullmatch(cell) else None
