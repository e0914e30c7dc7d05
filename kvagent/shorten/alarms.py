"""Which lines say that something went wrong?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

# Finding these and looking closer only there is many times faster than searching for _ALARM.
_STEMS = (
    b"error",
    b"fatal",
    b"critical",
    b"exception",
    b"traceback",
    b"panic",
    b"fail",
    b"exit",
    b"warn",
)
# Whole words, in a message and not in code: `catch (error)` and `console.error(…)` report nothing.
_BEFORE = rb"(?<!\b0 )(?<!\bno )(?<![\w.(\"'`-])"
_BEHIND = rb"(?![\w(\"'`-]|[.)\[]\w)"
_WORDS = rb"errors?|fatal|critical|exceptions?|traceback|panic(?:ked)?|fail(?:ed|ures?|s)?"
_ALARM = re.compile(
    rb"%b(?:%b|(?P<warning>warn(?:ings?)?))%b" % (_BEFORE, _WORDS, _BEHIND)
    + rb"|(?<=\w)(?-i:Error|Exception|Failure)(?=:|\s|$)"  # the class of an exception
    + rb"|(?<=\":\")(?:error|fatal|critical|failed)\""  # "level":"error"
    + rb"|(?<=\": \")(?:error|fatal|critical|failed)\""
    + rb"|(?P<exit>\bexit(?:ed)?(?: with)?(?: code| status)\b)",
    re.IGNORECASE,
)
# Positions, times and counts; not the codes of errors: E0308 and TS2304 say what went wrong.
_VARYING = re.compile(
    r"(?<![\w-])(?:(?=[\da-fA-F-]{7})(?=\S*\d)[\da-fA-F-]{7,}|\d[\d.:,-]*)(?![\w])"
)


def alarms(texts: Sequence[str]) -> Iterator[int]:
    """The indexes of the lines that report an error or a warning, the most needed first.

    The first and the last line with an exit status, error and warning, then the others in this
    order: first one of each wording (numbers apart), then the rest.
    """
    groups = reports(texts)
    first_and_last = dict.fromkeys(i for group in groups for i in (*group[:1], *group[-1:]))
    yield from first_and_last
    others = (i for i in chain.from_iterable(groups) if i not in first_and_last)
    yield from by_wording(texts, others, {_wording(texts[index]) for index in first_and_last})


def by_wording(
    texts: Sequence[str], indexes: Iterable[int], known: Iterable[str] = ()
) -> Iterator[int]:
    """The first line of each wording that is not among those `known`; then the other lines."""
    wordings = set(known)
    others: list[int] = []
    for index in indexes:
        wording = _wording(texts[index])
        if wording in wordings:
            others.append(index)
        else:
            wordings.add(wording)
            yield index
    seen: set[str] = set()
    for index in others:
        if texts[index] not in seen:
            seen.add(texts[index])
            yield index


def _wording(text: str) -> str:
    return _VARYING.sub("0", text)


def reports(texts: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
    """The indexes of the lines with an exit status, with an error, and with a warning, in order."""
    data = "\n".join(texts).encode("utf-8", "surrogatepass")
    lowered = data.lower()  # of bytes: only ASCII, so that every position stays the same
    exits: set[int] = set()
    errors: set[int] = set()
    warnings: set[int] = set()
    for stem in _STEMS:
        index, counted, hit = 0, 0, lowered.find(stem)
        while hit >= 0:
            match = _ALARM.match(data, hit)
            if match is not None:
                index += data.count(b"\n", counted, hit)
                counted = hit
                (exits if match["exit"] else warnings if match["warning"] else errors).add(index)
            hit = lowered.find(stem, hit + 1)
    return sorted(exits), sorted(errors), sorted(warnings)
