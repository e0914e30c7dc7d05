"""What of a line was read already, as part of a line before it?

In a log of requests nearly all of a line stands in an earlier one of the same conversation. Only the
messages that are new are parsed, and only they are asked what every message is asked; the others
are the very objects of before, so that whoever looks at them next sees at once that nothing has
changed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson

from kvagent.audit.formats.json_text import parsed

# Bytes of lines that are held, and what a line may have to be among them.
_ROOM = 8 << 20
_LONGEST = 4 << 20

_LIST = re.compile(rb'"messages"\s*:\s*\[')
# What ends a list: a text may hold brackets, too.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_BLANK = b" \t\r\n"
# Stands where the messages do, in the rest of a line.
_MARK = "the messages of this line"
_MARKED = b'"the messages of this line"'
_DEEPEST = 4


class Messages(list[Any]):
    """The messages of a line, which may begin with all those of a line before it."""

    __slots__ = ("_passed",)

    def __init__(self, messages: Sequence[Any], before: Messages | None = None) -> None:
        super().__init__(messages)
        # How many of the first ones passed a test, whichever of the lines was asked.
        self._passed: dict[_Test, int] = {} if before is None else before._passed

    def pass_all(self, test: _Test) -> bool:
        """``all_pass``, which asks only those that are not known to pass."""
        passed = self._passed.get(test, 0)
        if passed < len(self):
            if not test(self[passed:]):
                return False
            self._passed[test] = len(self)
        return True


_Test = Callable[[list[Any]], bool]


def all_pass(messages: list[Any], test: _Test) -> bool:
    """Whether messages pass a test that each of them passes, or does not, by itself."""
    return messages.pass_all(test) if isinstance(messages, Messages) else test(messages)


class _Line(NamedTuple):
    """A line, as far as later ones may repeat it."""

    head: bytes
    """Up to the end of the last message."""
    first: int
    """Where in it the messages begin."""
    tail: bytes
    """From there on."""
    rest: Any
    """The value of the line, with a mark where the messages are."""
    path: Sequence[str]
    """Under which keys they are."""
    messages: Messages
    used: int


class Repeated:
    """Reads one line after the other."""

    def __init__(self) -> None:
        # In the order of their heads: the longest one that begins a line stands right before it.
        self._heads: list[bytes] = []
        self._lines: list[_Line] = []
        self._size = 0
        self._count = 0

    def parsed(self, data: bytes) -> Any:
        """The value of a line, as ``json_text.parsed`` gives it. Raises ``Broken``."""
        found = _LIST.search(data) if len(data) <= _LONGEST else None
        if found is None:
            return parsed(data)
        at = bisect_right(self._heads, data) - 1
        known = self._lines[at] if at >= 0 and data.startswith(self._heads[at]) else None
        try:
            line = self._read(data, found.end(), known)
        except (orjson.JSONDecodeError, _NotSo):
            return parsed(data)
        if known is None:
            at = bisect_left(self._heads, line.head)
        # What it continues, or repeats, stands where it belongs in the order.
        if known is not None or self._heads[at : at + 1] == [line.head]:
            self._forget(at)
        self._hold(at, line)
        return _filled(line.rest, line.path, Messages(line.messages, line.messages))

    def _read(self, data: bytes, first: int, known: _Line | None) -> _Line:
        """The line, of which ``known`` begins it; each part of it is JSON, or this raises."""
        start, before = first, None
        if known is not None:
            start, before = len(known.head), known.messages
        if known is not None and data.endswith(known.tail) and len(data) >= start + len(known.tail):
            end, rest, path = len(data) - len(known.tail), known.rest, known.path
        else:
            end = _end_of_list(data, start)
            parts = data[:first], data[end:]
            if any(_MARKED in part for part in parts):
                raise _NotSo
            rest = orjson.loads(_MARKED.join(parts))
            path = _path_of_mark(rest)
        fresh = data[start:end].strip(_BLANK)
        if before and fresh:
            if not fresh.startswith(b","):
                raise _NotSo
            fresh = fresh[1:]
            if not fresh.strip(_BLANK):
                raise _NotSo
        messages = Messages(before or (), before)
        messages += orjson.loads(b"[" + fresh + b"]")
        self._count += 1
        return _Line(data[:end], first, data[end:], rest, path, messages, self._count)

    def _hold(self, at: int, line: _Line) -> None:
        self._heads.insert(at, line.head)
        self._lines.insert(at, line)
        self._size += len(line.head)
        if self._size > _ROOM:
            # The half that was not used for longer.
            middle = sorted(each.used for each in self._lines)[len(self._lines) // 2]
            self._lines = [each for each in self._lines if each.used >= middle]
            self._heads = [each.head for each in self._lines]
            self._size = sum(map(len, self._heads))

    def _forget(self, at: int) -> None:
        self._size -= len(self._heads[at])
        del self._heads[at], self._lines[at]


class _NotSo(Exception):
    """The line is not what it looked like."""


def _end_of_list(data: bytes, start: int) -> int:
    """Where the list ends within which ``start`` stands, between two values."""
    depth = 1
    for token in _TOKEN.finditer(data, start):
        byte = data[token.start()]
        if byte in b"[{":
            depth += 1
        elif byte in b"]}":
            depth -= 1
            if not depth:
                return token.start()
    raise _NotSo


def _path_of_mark(rest: Any) -> Sequence[str]:
    """Under which keys the mark is: if it is under none, another key of the same name hides it."""
    todo: list[tuple[Any, tuple[str, ...]]] = [(rest, ())]
    while todo:
        value, path = todo.pop()
        if isinstance(value, dict) and len(path) < _DEEPEST:
            if value.get("messages") == [_MARK]:
                return *path, "messages"
            todo += [(inner, (*path, key)) for key, inner in value.items()]
    raise _NotSo


def _filled(value: Any, path: Sequence[str], messages: Any) -> Any:
    """The value with the messages in the place of the mark; the value itself stays as it is."""
    if not path:
        return messages
    return {**value, path[0]: _filled(value[path[0]], path[1:], messages)}
