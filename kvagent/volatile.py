"""Which text in a head changes from request to request without changing the instructions?

Text is read line by line, and a line once only: heads come again every turn with one line changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

PLACEHOLDER = "[see newest note]"
"""Stands in the head where volatile text was; the value follows in a note."""

NOTE = "[note] "
"""Opens each line of a note."""

MARK_OPEN, MARK_CLOSE = "<volatile>", "</volatile>"

# A note repeats the line that holds the value, or so much of a long line around it.
_NOTE_CHARS = 160
_AROUND = 80
_SENTENCE = re.compile(r"(?<=[.!?;]) ")

_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_WEEKDAY = (
    r"(?:Mon(?:day)?|Tue(?:s(?:day)?)?|Wed(?:nesday)?|Thu(?:rs(?:day)?)?|Fri(?:day)?"
    r"|Sat(?:urday)?|Sun(?:day)?)"
)
# Zones by name, lest a word behind a clock is taken for one.
_ZONE = (
    r"(?:\s?(?:(?:UTC|GMT)(?:[+-]\d{1,2}(?::?\d{2})?)?|Z|[CEW]ES?T|AE[SD]T|AC[SD]T|AWST|NZ[SD]T"
    r"|AK[SD]T|[ACEMNP][SD]T|[BHIJKPW]ST|SAST|PKT|[ACEW]AT|MSK|TRT|WI[BT]|SGT|HKT|BRT|ART)\b"
    r"|\s?[+-]\d{2}:?\d{2})?"
)
_HALF = r"\s?(?:[AaPp]\.[Mm]\.|[AaPp][Mm]\b)"
_TIME = (
    rf"(?:\d{{1,2}}[:h]\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?(?:{_HALF})?|\d{{1,2}}{_HALF})"
    + _ZONE
)  # fmt: skip
_DAY = r"(?:the\s+)?\d{1,2}(?:st|nd|rd|th)?"
_DATE = (
    r"(?:"
    r"\d{4}-\d{2}-\d{2}"
    r"|\d{4}/\d{1,2}/\d{1,2}"
    r"|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}"
    r"|\d{4}\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?日"
    rf"|\d{{1,2}}-{_MONTH}-\d{{2,4}}"
    rf"|(?:{_WEEKDAY},?\s+)?{_MONTH}\.?\s+{_DAY}(?:,?\s+\d{{4}}\b)?"
    rf"|(?:{_WEEKDAY},?\s+)?{_DAY}\s+(?:of\s+)?{_MONTH}\.?(?:,?\s+\d{{4}}\b)?"
    r")"
)
_MOMENT = (
    rf"(?:{_WEEKDAY},?\s+)?(?:{_DATE}(?:(?:\s*[T,]\s*|\s+(?:at\s+)?){_TIME})?(?:\s+\d{{4}}\b)?"
    rf"(?:\s*\(\s*{_WEEKDAY}\s*\))?"
    rf"|{_TIME})|{_WEEKDAY}\b"
)

# Labels that say "this is the clock"; a release date or a deadline is none of them.
_LABEL = (
    r"(?:"
    r"\b(?:current|present|local|system|server|utc)[\s_-]*(?:(?:local|utc|gmt)[\s_-]*)?"
    r"(?:date\s*(?:and|&|/|,)?\s*time|datetime|date|time(?:stamp)?|day)"
    r"(?:\s*\([^)\n]{0,30}\)|\s+in\s+[\w/.-]{1,30})?(?:\s+(?:is|now))?"
    r"|\btoday(?:['\u2019]?s?\s+(?:date|day))?(?:\s+is)?"
    r"|\b(?:it\s+is\s+now|the\s+time\s+is(?:\s+now)?|time\s+now|now(?:\s+is)?)"
    r"|^\W{0,4}(?:date\s*/?\s*time|datetime|date|time(?:stamp)?)(?=\W{0,3}[:=>])"
    r")"
)
_CLOCK = re.compile(
    rf"(?i:{_LABEL})[\s:=>\"'*`]{{1,6}}(?:(?:on|at)\s+)?"
    rf"(?P<value>{_MOMENT}|\d{{10}}(?:\d{{3}})?(?:\.\d+)?\b)"
)
_ATTRIBUTION = re.compile(r"(?i)^\s*x-[\w-]*(?:billing|attribution)[\w-]*:\s*(?P<value>\S.*)")
_BARE = re.compile(
    rf"{MARK_OPEN}(?P<marked>[^<]*(?:<(?!/?volatile>)[^<]*)*){MARK_CLOSE}"
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    rf"|(?<![\w.:/-]){_DATE}(?:(?:\s*[T,]\s*|\s+(?:at\s+)?){_TIME})?(?![\w-])"
    rf"|(?<![\w.:/-])\d{{1,2}}:\d{{2}}(?::\d{{2}}(?:[.,]\d{{1,9}})?)?{_ZONE}(?![\w:])"
    r"|(?i:\b(?:request|req|trace|span|session|run|thread|conversation|correlation|message|job"
    r"|build|instance|execution|invocation)[\s_-]?(?:id|uuid|nonce)\b)"
    # What follows without a sign is an id only if it looks like one: it may be an instruction.
    r"(?:\s*[:=>\"'#(][\s:=>\"'#(]{0,3}|\s+(?=[\w.:-]*\d))"
    r"(?P<id>[A-Za-z0-9][\w.:-]{2,})"
    r"|\b(?:req|run|sess|session|trace|msg|chatcmpl|call|thread|conv)[_-]"
    r"(?=[\w-]*\d)[A-Za-z0-9][\w-]{5,}"
    r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"
    r"|\b1[5-9]\d{8}(?:\d{3}){0,3}\b",
    re.ASCII,  # a date may stand between Chinese characters, which are word characters too
)


_TELLS_TIME = re.compile(rf"\s*(?:{_MOMENT}|1\d{{9}}(?:\d{{3}}){{0,3}}(?:\.\d+)?)\s*")

_DECORATION = "#*_-=<>[]: \t\r"
_HOUR = re.compile(r"\d[:h]\d\d")
# A label may be the heading of a section, or a tag, and the clock the line below it.
_HEADING = re.compile(rf"\W{{0,6}}(?i:(?:the\s+)?(?:{_LABEL}|date|time))\W{{0,4}}")
_ALONE = (re.compile(rf"^\W{{0,4}}(?P<value>{_MOMENT})"), ("value",), True)
_KNOWN = (
    (_ATTRIBUTION, ("value",), True),
    (_CLOCK, ("value",), True),
    (_BARE, ("marked", "id"), False),
)
"""Patterns, the groups that hold what changes, and whether it is volatile at first sight."""


def volatile(text: str) -> str:
    """Mark text of a system prompt that may change without changing the instructions.

    The marks are plain tags that a model reads over. Once the text is seen to change, the prompt
    keeps its first form and the new text reaches the model in a note. Raises ``TypeError`` for what
    is no text, and ``ValueError`` for several lines.
    """
    if not isinstance(text, str):
        raise TypeError(f"kvagent.volatile: a text is wanted, not {type(text).__name__}")
    if "\n" in text:
        raise ValueError("kvagent.volatile: the text has several lines; mark each on its own")
    return f"{MARK_OPEN}{text}{MARK_CLOSE}"


def is_clock(value: str) -> bool:
    """Whether volatile text is a time or a day, and not an id."""
    return _TELLS_TIME.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Span:
    """Volatile text inside a line."""

    start: int
    end: int
    at_sight: bool
    """Whether it is known for volatile without having been seen to change."""
    private: bool
    """Whether it may tell who or what it is about: anything but the time of day."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a head, and its volatile spans in order."""

    text: str
    spans: tuple[Span, ...]
    label: str = ""
    """What the line above says, where it is the heading of a clock."""
    heading: str = ""
    """The label that this line is for the next one."""

    @property
    def values(self) -> tuple[str, ...]:
        return tuple(self.text[span.start : span.end] for span in self.spans)

    def skeleton(self) -> str:
        """The line with its volatile text taken out."""
        return self.replaced(range(len(self.spans)), "\0")

    def replaced(self, places: Sequence[int] | range | set[int], by: str) -> str:
        """The line with the spans at ``places`` replaced."""
        out: list[str] = []
        at = 0
        for place, span in enumerate(self.spans):
            if place in places:
                out += (self.text[at : span.start], by)
                at = span.end
        return "".join(out) + self.text[at:]

    def note(self, places: set[int]) -> str:
        """The line, or what of a long one stands around the values at ``places``."""
        groups: list[list[Span]] = []
        for span in (self.spans[place] for place in sorted(places)):
            if groups and span.end - groups[-1][0].start <= _NOTE_CHARS:
                groups[-1].append(span)
            else:
                groups.append([span])
        said = " … ".join(self._around(group[0].start, group[-1].end) for group in groups)
        return f"{self.label}: {said}" if self.label else said

    def _around(self, start: int, end: int) -> str:
        room = max(_NOTE_CHARS - (end - start), _AROUND) // 2
        left, right = max(0, start - room), min(len(self.text), end + room)
        before, after = self.text[left:start], self.text[end:right]
        # Begin and end with a sentence where one does within this room, else with a whole word.
        if left > 0:
            *_, before = (
                _SENTENCE.split(before) if _SENTENCE.search(before) else before.split(" ", 1)
            )
        if right < len(self.text):
            after, *_ = _SENTENCE.split(after) if _SENTENCE.search(after) else after.rsplit(" ", 1)
        return (before + self.text[start:end] + after).strip()


class Reader:
    """Finds volatile text, in the known forms and in those that the user declared."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        declared = ((re.compile(pattern), ("value",), False) for pattern in patterns)
        self._patterns = (*declared, *_KNOWN)
        self.line = lru_cache(maxsize=16_384)(self._line)

    def lines(self, text: str) -> list[Line]:
        """The text's lines; joined by newlines they are the text again."""
        lines: list[Line] = []
        label = ""
        for each in text.split("\n"):
            line = self.line(each, label)
            lines.append(line)
            label = line.heading or ("" if each.strip() else label)
        return lines

    def _line(self, text: str, label: str = "") -> Line:
        spans: list[Span] = []
        taken = bytearray(len(text))
        patterns = (_ALONE, *self._patterns) if label else self._patterns
        for pattern, names, at_sight in patterns:
            for match in pattern.finditer(text):
                group = _value_group(match, names)
                start, end = match.span(group)
                # An empty text may be marked: what will stand there changes as well.
                if 0 <= start <= end and taken.find(1, start, end) < 0:
                    taken[start:end] = b"\1" * (end - start)
                    clock = at_sight or (group == 0 and _HOUR.search(match[0]) is not None)
                    spans.append(Span(start, end, at_sight, private=not clock))
        spans.sort(key=lambda span: span.start)
        heading = text.strip(_DECORATION) if not spans and _HEADING.fullmatch(text) else ""
        return Line(text, tuple(spans), label, heading)


def _value_group(match: re.Match[str], names: Sequence[str]) -> str | int:
    """The group that holds what changes; 0, the whole match, where none of them does."""
    groups = match.groupdict()
    if len(names) == 1 and names[0] in groups:
        return names[0]
    return next((name for name in names if groups.get(name) is not None), 0)
