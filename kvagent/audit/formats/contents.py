"""Does a file hold one value, or one a line, and what are the first?

A file is read line by line if most of its first lines are JSON objects or lists by themselves;
else it is one document, which may be printed over many lines. Its beginning is read ahead for
recognition; nothing of it is lost to the reader that comes after.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kvagent.audit.formats.json_text import Broken, parsed
from kvagent.audit.formats.repeated import Repeated
from kvagent.audit.source import Line, Source, TooLarge
from kvagent.audit.transcript import Place, Unreadable

_LINES = 100
_BYTES = 1 << 22
_HEAD = 1 << 16

BREAKS_OFF = "breaks off"


@dataclass(slots=True)
class Contents:
    """What is known of a file before a format reads it."""

    source: Source
    head: bytes
    """Its first bytes."""
    values: list[Any] = field(default_factory=list)
    """The JSON values of its first lines, or the one value of the document."""
    document: bool = False
    """Whether it is one document, and not a value a line."""
    alone: bool = False
    """Whether ``values`` has everything there is."""
    raw: bytes = b""
    """A document that is not JSON."""
    why: str = ""
    """Why it is not."""
    repeated: Repeated = field(default_factory=Repeated)
    """Reads its lines."""
    _ahead: dict[int, Any] = field(default_factory=dict)
    """What was read ahead, by the number of the line."""

    @classmethod
    def of(cls, source: Source) -> Contents:
        """Read ahead as far as it takes to know."""
        lines = source.ahead(_LINES, _BYTES)
        head = b"".join(line.data for line in lines)[:_HEAD]
        filled = [line for line in lines if line.data.strip()]
        repeated, ahead = Repeated(), dict[int, Any]()
        for line in filled:
            with suppress(Broken):
                ahead[line.number] = repeated.parsed(line.data)
        values = [value for value in ahead.values() if isinstance(value, dict | list)]
        if values and 2 * len(values) >= len(filled):
            alone = len(filled) == 1 and source.at_end
            return cls(source, head, values, alone=alone, repeated=repeated, _ahead=ahead)
        try:
            raw = source.document()
        except TooLarge as error:
            return cls(source, head, document=True, why=str(error))
        try:
            value = parsed(raw)
        except Broken as error:
            why = BREAKS_OFF if source.breaks_off else str(error)
            return cls(source, head, document=True, raw=raw, why=why)
        return cls(source, head, [value], document=True, alone=True)

    @property
    def value(self) -> Any:
        """The first value; None where there is none."""
        return self.values[0] if self.values else None

    def records(self) -> Iterator[tuple[Place, Any] | Unreadable]:
        """Every value with its place; the one of a document, or one a line."""
        name = self.source.name
        if self.document:
            if self.values:
                yield Place(name), self.values[0]
            else:
                yield Unreadable(Place(name), self.why, is_end=self.source.breaks_off)
            return
        for line in self.source.lines():
            if isinstance(line, Unreadable):
                yield line
                continue
            try:
                yield Place(name, line.number), self._value(line)
            except Broken as error:
                if line.data.strip():
                    yield Unreadable(Place(name, line.number), str(error))

    def _value(self, line: Line) -> Any:
        if line.number in self._ahead:
            return self._ahead.pop(line.number)
        return self.repeated.parsed(line.data)

    def objects(self) -> Iterator[tuple[Place, dict[str, Any]] | Unreadable]:
        """``records`` of which each is to be an object."""
        for each in self.records():
            if isinstance(each, Unreadable) or isinstance(each[1], dict):
                yield each
            else:
                yield Unreadable(each[0], f"is {kind(each[1])}, not an object")


def kind(value: Any) -> str:
    """What a JSON value is, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"
