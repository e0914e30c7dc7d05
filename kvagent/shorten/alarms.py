"""Which lines say that something went wrong?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

# A line without any of these needs no closer look: finding them is many times faster than _ALARM.
_STEMS = ("error", "warn", "fatal", "critical", "exception", "traceback", "panic", "fail", "exit")

# Whole words, in a message and not in code: `catch (error)` and `console.error(…)` report nothing.
_BEFORE = r"(?<!\b0 )(?<!\bno )(?<![\w.(\"'`-])"
_BEHIND = r"(?![\w(\"'`-]|[.)\[]\w)"
_WORDS = "errors?|fatal|critical|exceptions?|traceback|panic(?:ked)?|fail(?:ed|ures?|s)?"
_ALARM = re.compile(
    rf"{_BEFORE}(?:{_WORDS}){_BEHIND}"
    r"|(?P<exit>\bexit(?:ed)?(?: with)?(?: code| status)\b(?:[ :=]{1,3}-?\d+)?)"
    r"|(?-i:\b[A-Z]\w*(?:Error|Exception|Failure)(?=:|\s|$))"
    r"|(?:level|severity|status)\w*[\"']?\s?[:=]\s?[\"']?(?:error|fatal|critical|failed)\b"
    rf"|(?P<warning>{_BEFORE}warn(?:ings?)?{_BEHIND})",
    re.IGNORECASE,
)
_VARYING = re.compile(r"[\da-fA-F-]*\d[\da-fA-F-]*")


def alarms(texts: Sequence[str]) -> list[int]:
    """The indexes of the lines that report an error or a warning, the most needed first.

    First and last error, first and last warning, then the other errors and the other warnings,
    of each wording (digits and hashes apart) only the first.
    """
    errors: list[int] = []
    warnings: list[int] = []
    for index in _candidates(texts):
        match = _ALARM.search(texts[index])
        if match is not None:
            (warnings if match["warning"] else errors).append(index)
    first_and_last = [index for group in (errors, warnings) for index in group[:1] + group[-1:]]
    wordings: dict[str, int] = {}
    for index in errors + warnings:
        wordings.setdefault(_VARYING.sub("0", texts[index]), index)
    return list(dict.fromkeys(first_and_last + list(wordings.values())))


def exit_codes(texts: Iterable[str]) -> Iterator[str]:
    """The wordings like "exit code 2" in `texts`."""
    for text in texts:
        match = _ALARM.search(text)
        if match is not None and match["exit"]:
            yield match["exit"]


def _candidates(texts: Sequence[str]) -> list[int]:
    joined = "\n".join(texts).lower()
    found: set[int] = set()
    for stem in _STEMS:
        index, begin, hit = 0, 0, joined.find(stem)
        while hit >= 0:
            index += joined.count("\n", begin, hit)
            found.add(index)
            begin = joined.find("\n", hit)
            if begin < 0:
                break
            hit = joined.find(stem, begin)
    return sorted(found)
