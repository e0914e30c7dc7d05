"""Which values did a sentence set, and which ones did it replace?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kvagent.compaction.words import word_set

# Nouns that name a setting: "the codename is zorvane" sets one, "the plan is fine" does not.
_NAMES = word_set(
    "account address alias alphabet architecture backend bucket budget charset cluster codename color colour"
    " compiler container currency database datacenter date db deadline default delimiter device dialect"
    " directory domain encoding endpoint engine env environment file filename flag folder font format"
    " framework frequency frontend host hostname id image indent indentation interval key keyword label"
    " language level library license limit locale location login mode model name namespace nickname number"
    " package parser passphrase password path pattern phrase pin platform port prefix profile project"
    " protocol provider queue region release repo repository retries runner runtime schema scheme secret"
    " separator server service setting size stage store style suffix table tag target threshold timeout"
    " timezone title token tool topic translation type unit url user username value variant vendor version"
    " volume width word zone branch"
)
_QUOTED = r"`[^`\n]{1,80}`|\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|(?<!\w)'[^'\n]{1,80}'(?!\w)"
_UNIT = (
    r"(?:%|percent|[kmgt]i?b|bytes?|ms|s|secs?|seconds?|min|minutes?|h|hours?|days?|weeks?|months?|years?"
    r"|tokens?|chars|characters|lines?|px|pt|spaces?|tabs?|retries|attempts|times|eur|euros?|usd|dollars?"
    r"|[€$£])"
)
_WORD = r"[^\s,;!?()\"`“”']*[^\s,;:!?.()\"`“”']"
_VALUE = rf"(?P<value>{_QUOTED}|[$€£]?\d[\d.,_]*(?<=\d)\s?{_UNIT}(?!\w)|{_WORD})"
_KEY = r"(?P<key>(?:[A-Za-z_][\w./'’-]*\s+){0,4}?[A-Za-z_][\w/'’-]*)"
_DETERMINER = r"(?:the|our|my|your|its|their|this|that)"
_BECOMES = (
    r"(?:is|are|was|will be|should be|must be|shall be|has to be|needs to be|stays|remains|becomes|equals"
    r"|has (?:changed|moved) to|(?:is|was|has been|gets) (?:changed|moved|set|renamed) to)"
)
_FILLERS = r"(?:(?:now|currently|always|called|named|set to|from now on|actually|still|then|no longer)\s+)*"
_STATEMENTS = (
    # An assignment.
    re.compile(
        rf"(?<![\w./=<>!(,;&?{{\[-])(?P<key>[A-Za-z_][\w.-]*(?:[ ][A-Za-z][\w-]*){{0,3}})\s*:?=(?!=)\s*{_VALUE}"
    ),
    # A label and its value, alone on a line.
    re.compile(
        rf"^\**(?P<key>[A-Za-z][\w-]*(?: [A-Za-z][\w-]*){{0,3}})\**\s*:\**\s+{_VALUE}[.!]?$"
    ),
    # The staging port is now 8080.
    re.compile(
        rf"(?:\b{_DETERMINER}\s+|^)(?:new\s+|current\s+)?{_KEY}\s+{_BECOMES}\s+{_FILLERS}{_VALUE}",
        re.IGNORECASE,
    ),
    # Change the port to 8080.
    re.compile(
        r"\b(?:set|change|bump|switch|update|raise|lower|increase|decrease|reduce|move|rename|extend)\s+"
        rf"(?:{_DETERMINER}\s+)?(?:new\s+|current\s+)?{_KEY}\s+(?:back\s+|over\s+)?(?:to|as)\s+{_VALUE}",
        re.IGNORECASE,
    ),
    # Use port 8080.
    re.compile(
        r"\b(?:use|take|pick|choose)\s+(?:the\s+)?(?:new\s+)?"
        rf"(?P<key>(?:[A-Za-z_][\w-]*\s+){{0,2}}?[A-Za-z_][\w-]*)\s+{_VALUE}",
        re.IGNORECASE,
    ),
    # Use 8080 as the port.
    re.compile(
        rf"\b(?:use|take|pick|choose)\s+{_VALUE}\s+(?:as|for)\s+(?:{_DETERMINER}\s+)?"
        r"(?P<key>(?:[A-Za-z_][\w-]*\s+){0,3}?[A-Za-z_][\w-]*)(?=[\s.,;!]|$)",
        re.IGNORECASE,
    ),
)
_LABEL, _USE, _AS = 1, 4, 5  # of these, only with a noun that names a setting
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*|[a-z0-9]+(?:_[a-z0-9]+)+")
_THING = rf"(?:{_QUOTED}|{_WORD})"
_REPLACEMENTS = (
    re.compile(
        rf"(?P<new>{_THING}),?\s+"
        rf"(?:instead of|rather than|in place of|in lieu of|over|and not|not)\s+(?:the\s+)?(?P<old>{_THING})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\binstead of\s+(?P<old>{_THING}),?\s+(?:please\s+)?(?:use|take|run|pick|choose)\s+(?P<new>{_THING})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?:replace|swap|exchange)\s+(?P<old>{_THING})\s+(?:with|by|for)\s+(?P<new>{_THING})",
        re.IGNORECASE,
    ),
    re.compile(rf"\bfrom\s+(?P<old>{_THING})\s+to\s+(?P<new>{_THING})", re.IGNORECASE),
    re.compile(
        rf"\b(?:change|rename|switch)\s+(?P<old>{_THING})\s+to\s+(?P<new>{_THING})", re.IGNORECASE
    ),
    re.compile(rf"\bnot\s+(?P<old>{_THING}),?\s+but\s+(?P<new>{_THING})", re.IGNORECASE),
    re.compile(rf"(?P<old>{_THING})\s*(?:->|→|=>)\s*(?P<new>{_THING})"),
)
_QUALIFIER = re.compile(
    rf"\b(?:for|in|on|of|under|within|at)\s+(?:{_DETERMINER}\s+)?(?P<what>[A-Za-z][\w-]*(?:\s+[A-Za-z][\w-]*)?)",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\s\(|\s(?:for|in|on|of|under|within|at)\s")
_EMPTY = word_set(
    "a actually again all also an and any are as at back be by current currently every for from going here i"
    " in is it its just let lets make maybe me my new no not now of on onwards or our out please point real"
    " set should so sure that the their then there this time to today too use using very was we will with"
    " you your change switch update instead rather case order fact general addition particular must only"
    " never always keep ensure be have has default's"
)
_NO_VALUE = word_set(
    "a about all also an and any as at bad being broken but by clear correct done enough false fine for from"
    " going good great here how i if important in it its just less like missing more my no none not of ok"
    " okay on only or our ready right so something that the their there these this those to too true used"
    " very what when where which who why with working wrong yet you your"
)
_SWITCHES = word_set("true false on off yes no enabled disabled none null")


@dataclass(frozen=True, slots=True)
class Stated:
    """A value as a sentence sets it."""

    key: str
    """What it is a value of, in the sentence's own words."""
    value: str


def subject_of(key: str) -> frozenset[str]:
    """The words that make two keys the same, however they are spelt and ordered."""
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)
    return frozenset(re.findall(r"[^\W_]+", spread.lower())) - _EMPTY


def bare_subject_of(key: str) -> frozenset[str]:
    """The same without what the key says about where it holds: "port" of "port in staging"."""
    return subject_of(_PLACE.split(key, maxsplit=1)[0]) or subject_of(key)


def values_in(sentence: str) -> list[Stated]:
    """The values that a sentence sets, one a key."""
    if sentence.endswith("?"):
        return []
    found: dict[frozenset[str], Stated] = {}
    for number, pattern in enumerate(_STATEMENTS):
        for match in pattern.finditer(sentence):
            key, value = match["key"], match["value"]
            words = subject_of(key)
            if (
                _in_code(sentence, match)
                or not words
                or key.startswith("from ")
                or not _is_value(value, words, strict=number in (_USE, _AS))
            ):
                continue
            if (
                number in (_LABEL, _USE, _AS)
                and not words & _NAMES
                and not _CONSTANT.fullmatch(key)
            ):
                continue
            key = _qualified(key, sentence, match)
            found.setdefault(subject_of(key), Stated(key, bare(value)))
    return list(found.values())


def replacements_in(sentence: str) -> Iterator[tuple[str, str]]:
    """Old and new of each "X instead of Y"."""
    if sentence.endswith("?"):
        return
    for pattern in _REPLACEMENTS:
        for match in pattern.finditer(sentence):
            old, new = bare(match["old"]), bare(match["new"])
            if old and new and old != new and old.lower() not in _EMPTY:
                yield old, new


def bare(value: str) -> str:
    """A value without the quotes around it."""
    if len(value) > 1 and value[0] in "`\"'“" and value[-1] in "`\"'”":
        return value[1:-1].strip()
    return value


def is_telling(value: str) -> bool:
    """Whether a value can be told from other words wherever it stands."""
    if any(letter.isdigit() for letter in value):
        return len(value) >= 3
    return len(value) >= 4 and value.lower() not in _NO_VALUE | _SWITCHES


def find(value: str) -> re.Pattern[str]:
    """Finds a value where it stands as a word of its own, not as a part of a name."""
    if value.isalpha():
        return re.compile(rf"(?<![\w./-]){re.escape(value)}(?![\w/-]|\.\w)", re.IGNORECASE)
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w|[.,]\d)")


def _is_value(value: str, words: frozenset[str], *, strict: bool) -> bool:
    if value[0] in "`\"“'":
        return True
    lowered = value.lower()
    if lowered in _SWITCHES:
        return bool(words & _NAMES) or lowered in {"true", "false", "enabled", "disabled"}
    if lowered in _NO_VALUE or lowered in _EMPTY or (strict and lowered in _NAMES):
        return False
    if any(letter.isdigit() for letter in value):
        return True
    if value[1:] != value[1:].lower() or re.search(r"\w[_./:@#+-]\w|^[/~.]", value):
        return True
    return bool(words & _NAMES) and not lowered.endswith(("ing", "ed"))


def _in_code(sentence: str, match: re.Match[str]) -> bool:
    """Whether a statement stands within backquotes among more than itself: an example, not a value."""
    if sentence.count("`", 0, match.start()) % 2 == 0:
        return False
    return sentence[match.start() - 1] != "`" or sentence[match.end() : match.end() + 1] != "`"


def _qualified(key: str, sentence: str, match: re.Match[str]) -> str:
    """The key with what it is said to hold for: "the port in staging", "for staging, the port"."""
    spans = (match.span("key"), match.span("value"))
    more = []
    for found in _QUALIFIER.finditer(sentence):
        start, end = found.span("what")
        if any(start < last and first < end for first, last in spans):
            continue
        words = subject_of(found["what"])
        if words and not words <= subject_of(key):
            more.append(found["what"])
    return " ".join([key, *(f"({what})" for what in more[:1])])
