"""What of a log, or of what a build or a test run printed, stands?

How it ended, what went wrong first and last with the lines around it, where it was raised, and
each error and warning that reads unlike the others; then the lines that tell most for their length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from kvagent.shorten.alarms import by_wording, reports
from kvagent.shorten.composition import Wish
from kvagent.shorten.pieces import Pieces
from kvagent.shorten.result import Shortened
from kvagent.shorten.text import ends, lines_of_text
from kvagent.shorten.traces import foreign_frames, trace_lines

# Shares of the room.
_OUTCOME, _ERRORS, _TRACES, _OTHERS, _WARNINGS, _TAIL = 0.1, 0.25, 0.15, 0.1, 0.05, 0.05

_AROUND = 3  # lines before and behind the first and the last error
_MOST_WARNINGS = 5

_STAMP = re.compile(
    r"[\[(]?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[\[(]?\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|TRACE)\b|\d{10}\.\d"
)
# Behind a line feed: these are found faster than beginnings of lines.
_OUTPUT = re.compile(
    r"\n(?:=+ (?:test session starts|FAILURES|short test summary)|> \S+@\d|npm (?:ERR!|error|WARN)"
    r"|[ \t]*Compiling \S+ v\d|test result: |(?:PASS|FAIL) \S+|make(?:\[\d+\])?: |\S+: \*\*\* "
    r"|\[\d+/\d+\] |Step \d+/\d+|[ \t]*[✓✗] |ok \d+ |not ok \d+ |--- (?:FAIL|PASS): |=== RUN "
    r"|Process exited with code|Exit code:? \d|\[ERROR\] |BUILD (?:FAILED|SUCCESS)"
    r"|\S+\(\d+,\d+\): error|\S+:\d+:\d+: (?:error|warning)|error(?:\[E\d+\])?: |##\[)"
)
_OUTCOMES = re.compile(
    r"=+ .*\b(?:passed|failed|errors?|skipped|no tests ran)\b.* =+$|=+ short test summary"
    r"|\s*(?:Tests?|Test Suites|Test Files|Suites):? +.*\d+ (?:passed|failed|total)"
    r"|test result: |Ran \d+ tests? in|FAILED \(|OK(?: \(|$)|(?:PASS|FAIL)ED? |--- FAIL: "
    r"|\s*(?:Found|✖|×)? ?\d+ (?:errors?|problems?|failures?|warnings?|vulnerabilities)\b"
    r"|\s*\d+ (?:passing|failing|pending|passed|failed)\b|BUILD (?:FAILED|SUCCESS)"
    r"|make(?:\[\d+\])?: \*\*\* |error: could not compile|error: aborting|\s*Finished |npm ERR! code"
    r"|(?:Successfully|Failed) |\s*Exit code"
)
# What a test expected and what it got: pytest, Jest, Rust, Go.
_ASSERTED = re.compile(
    r"E {3,}\S|> {4,}\S|\s*(?:Expected|Received|expected|actual|got|want|left|right)\b.{0,20}?:"
    r"|\s*● |\s+\S+_test\.go:\d+: |assertion "
)
_SAMPLE = 200  # lines
_STAMPED = 0.3  # so many of them must bear a time or a level


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,  # noqa: ARG001 - what every shortener is given
    known: AbstractSet[str] = frozenset(),
) -> Shortened | None:
    """Shortens the output of a program to at most `budget` characters; None if `text` is none."""
    if not _is_output(text):
        return None
    return lines_of_text(text, budget, handle, _wishes, known, dull=foreign_frames)


def _is_output(text: str) -> bool:
    if "\x1b[" in text or "Traceback (most recent call last):" in text or "\n    at " in text:
        return True
    if "\n\tat " in text or _OUTPUT.search(f"\n{text}") is not None:
        return True
    sample = [line for line in islice(text.split("\n", _SAMPLE), _SAMPLE) if line.strip()]
    stamped = sum(map(bool, map(_STAMP.match, (line.lstrip() for line in sample))))
    return stamped > _STAMPED * len(sample)


def _wishes(pieces: Pieces) -> Sequence[Wish]:
    texts = pieces.texts
    count = len(texts)
    exits, errors, warnings = reports(texts)
    asserted = (index for index, text in enumerate(texts) if _ASSERTED.match(text))
    failures = sorted({*errors, *asserted})
    outcomes = [index for index, text in enumerate(texts) if _OUTCOMES.match(text)]
    return (
        ends(count),
        Wish([*reversed(exits), *reversed(outcomes)], _OUTCOME, through=True),
        Wish(_around((*errors[:1], *errors[-1:]), count), _ERRORS, through=True),
        Wish(trace_lines(texts), _TRACES, through=True),
        Wish(by_wording(texts, failures), _OTHERS, through=True),
        Wish(islice(by_wording(texts, warnings), _MOST_WARNINGS), _WARNINGS, through=True),
        Wish(range(count - 2, 0, -1), _TAIL),
    )


def _around(indexes: Iterable[int], count: int) -> Iterator[int]:
    """Each of the indexes, and then the nearest lines on both sides of each."""
    chosen = list(dict.fromkeys(indexes))
    yield from chosen
    for away in range(1, _AROUND + 1):
        for index in chosen:
            yield from (at for at in (index + away, index - away) if 0 <= at < count)
