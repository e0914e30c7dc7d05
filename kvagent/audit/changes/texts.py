"""What in a text became another: a clock, an id, or other text?

Only what is seen to change counts, at the first character that differs. Lines that are the same at
both ends are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any, Literal

from kvagent.prefixcache.seen import common_prefix
from kvagent.volatile import MARK_OPEN, Line, Reader, Span, is_clock

What = Literal["clock", "id", "text"]

# Lines are matched only where this many pairs of them are to be looked at; else one change is told.
_PAIRS = 250_000

# A reader remembers the lines that it has read: so many characters of them.
_READ = 4_000_000

# So much text in front of a clock names it.
_NAME = 80


@dataclass(frozen=True, slots=True)
class Change:
    """One place at which two texts differ."""

    what: What
    name: str
    """The text in front of a clock or an id: it has the same name in the next turn."""
    before: int
    """The first differing character in the older text."""
    after: int
    """The same in the newer one."""


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a message's content."""

    path: str
    """As in ``content`` or ``content[1].text``."""
    text: str


def parts_of(message: Mapping[str, Any]) -> list[Part]:
    """The texts of a message's content, in order."""
    content = message.get("content")
    if isinstance(content, str):
        return [Part("content", content)]
    if not isinstance(content, list):
        return []
    return [
        Part(f"content[{number}].text", part["text"])
        for number, part in enumerate(content)
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]


def joined(parts: Sequence[Part]) -> str:
    """The parts as one text, as both servers join them."""
    return "\n".join(part.text for part in parts)


def place_in(parts: Sequence[Part], at: int) -> tuple[str, int]:
    """The path of the part in which a character of the joined text stands, and where in it."""
    path = "content"
    for part in parts:
        path = part.path
        if at <= len(part.text):
            return path, at
        at -= len(part.text) + 1
    return path, 0


class Texts:
    """Compares texts."""

    def __init__(self) -> None:
        self._reader = Reader()
        self._read = 0

    def changes(self, before: str, after: str) -> list[Change]:
        """The places at which a text differs from what it was.

        Each clock and each id by itself, and of other text the first place.
        """
        if before == after:
            return []
        old, new = before.split("\n"), after.split("\n")
        first = _same(old, new)
        last = min(_same(old[::-1], new[::-1]), min(len(old), len(new)) - first)
        first = _with_heading(old, first)
        start = sum(map(len, old[:first])) + first
        sides = _Sides(
            self._lines(old[first : len(old) - last]),
            self._lines(new[first : len(new) - last]),
            start,
        )
        found: list[Change] = []
        for change in sides.changes():
            if change.what != "text":
                found.append(change)
            elif all(each.what != "text" for each in found):
                if not found:
                    # Lines that are the same may begin like those that were put in or taken out.
                    at = common_prefix(before, after)
                    change = Change("text", "", at, at)
                found.append(change)
        return found or [Change("text", "", at := common_prefix(before, after), at)]

    def lasting(self, text: str) -> str:
        """The text without clocks and ids."""
        lines = self._lines(text.split("\n"))
        return "\n".join("\0".join(_pieces(line)) for line in lines)

    def _lines(self, lines: Sequence[str]) -> list[Line]:
        text = "\n".join(lines)
        self._read += len(text)
        if self._read > _READ:
            self._reader, self._read = Reader(), len(text)
        return self._reader.lines(text) if lines else []


class _Sides:
    """The lines of two texts, and where each begins."""

    def __init__(self, old: Sequence[Line], new: Sequence[Line], start: int) -> None:
        self._old, self._new = old, new
        self._old_starts = _starts(old, start)
        self._new_starts = _starts(new, start)

    def changes(self) -> Iterator[Change]:
        """In the order of the newer text."""
        old, new = list(map(_pieces, self._old)), list(map(_pieces, self._new))
        first = _same(old, new)
        last = min(_same(old[::-1], new[::-1]), min(len(old), len(new)) - first)
        for at in range(first):
            yield from self._values(at, at)
        ends = len(old) - last, len(new) - last
        if (ends[0] - first) * (ends[1] - first) > _PAIRS:
            yield self._text(first, first)
        else:
            matcher = SequenceMatcher(None, old[first : ends[0]], new[first : ends[1]])
            for tag, begin, end, begins, stop in matcher.get_opcodes():
                lines = range(first + begin, first + end), range(first + begins, first + stop)
                if tag == "equal":
                    for one, other in zip(*lines, strict=True):
                        yield from self._values(one, other)
                else:
                    yield from self._replaced(*lines)
        for back in range(last, 0, -1):
            yield from self._values(len(old) - back, len(new) - back)

    def _replaced(self, old: range, new: range) -> Iterator[Change]:
        """Lines that became others: in pairs, as long as they are alike."""
        pairs = list(zip(old, new, strict=False))
        for one, other in pairs:
            was, now = _pieces(self._old[one]), _pieces(self._new[other])
            if was == now:
                yield from self._values(one, other)
            elif _is_alike("".join(was), "".join(now)):
                yield from self._within(one, other)
            else:
                yield self._text(one, other)
        if len(old) != len(new):
            yield self._text(old.start + len(pairs), new.start + len(pairs))

    def _values(self, one: int, other: int) -> Iterator[Change]:
        """Two lines that differ in volatile text at most."""
        old, new = self._old[one], self._new[other]
        if old.text != new.text:
            for before, after in zip(old.spans, new.spans, strict=True):
                yield from self._value(one, other, before, after)

    def _within(self, one: int, other: int) -> Iterator[Change]:
        """Two lines that are alike: their volatile texts from both ends, and the text between."""
        old, new = self._old[one], self._new[other]
        pieces, others = _pieces(old), _pieces(new)
        first = _same(pieces, others)
        last = min(_same(pieces[::-1], others[::-1]), min(len(pieces), len(others)) - first)
        first = min(first, len(old.spans), len(new.spans))
        last = min(last, len(old.spans) - first, len(new.spans) - first)
        for at in range(first):
            yield from self._value(one, other, old.spans[at], new.spans[at])
        start = old.spans[first - 1].end if first else 0
        starts = new.spans[first - 1].end if first else 0
        same = common_prefix(old.text[start:], new.text[starts:])
        yield Change(
            "text",
            "",
            self._old_starts[one] + start + same,
            self._new_starts[other] + starts + same,
        )
        for back in range(last, 0, -1):
            yield from self._value(one, other, old.spans[-back], new.spans[-back])

    def _value(self, one: int, other: int, before: Span, after: Span) -> Iterator[Change]:
        old, new = self._old[one], self._new[other]
        was, now = old.text[before.start : before.end], new.text[after.start : after.end]
        if was == now:
            return
        at = common_prefix(was, now)
        in_front = max((span.end for span in new.spans if span.end <= after.start), default=0)
        yield Change(
            _what(new, after, now),
            new.text[in_front : after.start][-_NAME:],
            self._old_starts[one] + before.start + at,
            self._new_starts[other] + after.start + at,
        )

    def _text(self, one: int, other: int) -> Change:
        """Other text from these lines on."""
        old = self._old[one].text if one < len(self._old) else ""
        new = self._new[other].text if other < len(self._new) else ""
        same = common_prefix(old, new)
        return Change("text", "", self._old_starts[one] + same, self._new_starts[other] + same)


def _what(line: Line, span: Span, value: str) -> What:
    if is_clock(value):
        return "clock"
    return "text" if line.text.endswith(MARK_OPEN, 0, span.start) else "id"


def _pieces(line: Line) -> tuple[str, ...]:
    """The text around and between volatile texts."""
    ends = [0, *(span.end for span in line.spans)]
    begins = [*(span.start for span in line.spans), len(line.text)]
    return tuple(line.text[end:begin] for end, begin in zip(ends, begins, strict=True))


def _is_alike(one: str, other: str) -> bool:
    """Whether it is one line, but for clocks and ids, with something in it changed."""
    same = common_prefix(one, other)
    same += common_prefix(one[same:][::-1], other[same:][::-1])
    return same * 2 >= max(len(one), len(other))


def _same(one: Sequence[object], other: Sequence[object]) -> int:
    """How many lines are the same from the beginning."""
    for at, (before, after) in enumerate(zip(one, other, strict=False)):
        if before != after:
            return at
    return min(len(one), len(other))


def _with_heading(lines: Sequence[str], at: int) -> int:
    """Up to the line above that is not empty: it may say that a clock stands below."""
    while at > 0:
        at -= 1
        if lines[at].strip():
            break
    return at


def _starts(lines: Sequence[Line], start: int) -> list[int]:
    return list(accumulate((len(line.text) + 1 for line in lines), initial=start))
