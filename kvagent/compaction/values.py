"""Which values did a sentence set, and which ones did it replace?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kvagent.compaction.words import word_set

# Nouns that name a setting: "use port 8080" sets one, "use tool support" does not.
_NAMES = word_set(
    "account address alias alphabet architecture backend bucket budget charset cluster code codename color"
    " colour compiler container currency database datacenter date day db deadline default delimiter device"
    " dialect directory domain editor email encoding endpoint engine env environment factor file filename"
    " flag folder font format framework frequency frontend host hostname id image indent indentation interval"
    " key keyword label language level library license limit locale location login mode model name namespace"
    " nickname number package parser passphrase password path pattern phrase pin platform port prefix profile"
    " project protocol provider queue rate region release repo repository retries runner runtime schema scheme"
    " secret seed separator server service setting size stage store style suffix table tag target theme"
    " threshold time timeout timezone title token tool topic translation type unit url user username value"
    " variant vendor version volume width word zone branch"
)
_NOUN = "(?:" + "|".join(sorted(_NAMES, key=len, reverse=True)) + ")"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_DATE = rf"{_DAY}\s+{_MONTH}(?:\s+\d{{4}})?|{_MONTH}\s+{_DAY}(?:,?\s+\d{{4}})?"
_QUOTED = r"`[^`\n]{1,80}`|\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|(?<!\w)'[^'\n]{1,80}'(?!\w)"
_UNIT = (
    r"(?:%|percent|[kmgt]i?b|bytes?|ms|s|secs?|seconds?|min|minutes?|h|hours?|days?|weeks?|months?|years?"
    r"|tokens?|chars|characters|lines?|words?|px|pt|spaces?|tabs?|retries|attempts|times|threads?|workers?"
    r"|cores?|files?|items?|pages?|people|eur|euros?|usd|dollars?|[€$£])"
)
_WORD = r"[^\s,;!?()\"`“”'。，；]*[^\s,;:!?.()\"`“”'。，；]"
_ONE = rf"{_QUOTED}|{_DATE}|[$€£]?\d[\d.,_]*(?<=\d)\s?{_UNIT}(?!\w)|{_WORD}"
_VALUE = rf"(?P<value>{_ONE})"
_ENDS = (
    r"(?!(?:and|but|or|because|so|which|that|for|in|on|of|at|to|from|with|now|instead|as|when|if|until|by"
    r"|than|not|then)\b)"
)
_PHRASE = rf"(?P<value>{_ONE}(?:\s+{_ENDS}{_WORD}){{0,2}})"
_TERM = r"[A-Za-z_-][\w./'’-]*"
_KEY = rf"(?P<key>(?:{_TERM}\s+){{0,4}}?{_TERM})"
_DETERMINER = r"(?:the|our|my|your|its|their|this|that)"
_CHANGED = r"(?:changed|moved|set|renamed|raised|lowered|increased|decreased|reduced|bumped|switched|updated)"
_BECOMES = (
    rf"(?:(?:is|was|has been|gets|has|have|will be)\s+(?:now\s+)?{_CHANGED}\s+(?:over\s+)?(?:from\s+\S+\s+)?to"
    rf"|{_CHANGED}\s+to|(?:has\s+|was\s+|is\s+)?changed[,;:]\s*(?:and\s+)?(?:it(?:'s|\s+is)|now)"
    r"|should be|must be|shall be|has to be|needs to be|will be|is|are|was|stays|remains|becomes|equals)"
)
_FILLERS = r"(?:(?:now|currently|always|called|named|set to|from now on|actually|still|then|on|at|by|due)\s+)*"
_CONFIGURE = r"(?:use|take|pick|choose|name|call|make|set|keep|target|require)"
_RUN = r"(?:listen|run|serve|bind|start|connect|deploy|publish|expose|use|switch)"


@dataclass(frozen=True, slots=True)
class _Form:
    """A way to state a value."""

    pattern: re.Pattern[str]
    named: bool = False
    """Only with a key that names a setting."""
    loose: bool = False
    """Also with a value that does not look like one: it is not shown, but may be replaced."""


_FORMS = (
    # An assignment.
    _Form(
        re.compile(
            r"(?<![\w./=<>!(,;&?{\[-])(?P<key>[A-Za-z_][\w.-]*(?:[ ][A-Za-z][\w-]*){0,3})\s*:?=(?!=)"
            rf"\s*{_VALUE}"
        )
    ),
    # A label and its value, alone on a line.
    _Form(
        re.compile(
            rf"^\**(?P<key>[A-Za-z][\w-]*(?: [A-Za-z][\w-]*){{0,3}})\**\s*:\**\s+{_VALUE}[.!]?$"
        ),
        named=True,
    ),
    # "The staging port is now 8080."
    _Form(
        re.compile(
            rf"\b{_DETERMINER}\s+(?:new\s+|current\s+)?{_KEY}\s+{_BECOMES}\s+{_FILLERS}{_PHRASE}",
            re.IGNORECASE,
        ),
        loose=True,
    ),
    # "Port is 8080."
    _Form(
        re.compile(rf"^(?:\w+[,:]\s+)?{_KEY}\s+{_BECOMES}\s+{_FILLERS}{_PHRASE}", re.IGNORECASE),
        named=True,
    ),
    # "Change the port to 8080."
    _Form(
        re.compile(
            r"\b(?:set|change|bump|switch|update|raise|lower|increase|decrease|reduce|move|rename|extend)\s+"
            rf"(?:{_DETERMINER}\s+)?(?:new\s+|current\s+)?{_KEY}\s+(?:back\s+|over\s+)?(?:to|as)\s+{_VALUE}",
            re.IGNORECASE,
        )
    ),
    # "Use the staging port 8080."
    _Form(
        re.compile(
            rf"\b{_CONFIGURE}\s+(?:{_DETERMINER}\s+)?(?:new\s+)?"
            rf"(?P<key>(?:{_TERM}\s+){{0,3}}{_NOUN})\s+{_VALUE}",
            re.IGNORECASE,
        )
    ),
    # "Use 8080 as the port."
    _Form(
        re.compile(
            rf"\b{_CONFIGURE}\s+{_VALUE}\s+(?:as|for)\s+(?:{_DETERMINER}\s+)?"
            rf"(?P<key>(?:{_TERM}\s+){{0,3}}?{_NOUN})(?=[\s.,;!]|$)",
            re.IGNORECASE,
        )
    ),
    # "Use Python 3.12."
    _Form(
        re.compile(
            r"\b(?:[Uu]se|[Tt]arget|[Rr]equire|[Ss]upport)\s+(?P<key>[A-Z]\w+)\s+"
            r"(?P<value>v?\d[\w.]*\w|v?\d)(?![\w.]*\w)"
        )
    ),
    # "Listen on port 8080.", "admin port 8080"
    _Form(
        re.compile(
            rf"^(?:please\s+)?(?:{_RUN}\s+(?:\w+\s+){{0,3}}?)?(?P<key>(?:[a-z]+\s+)?{_NOUN})\s+"
            rf"(?P<value>[^\s,;!?()]*\d[^\s,;!?()]*\w|\d)(?:\s+(?:instead|now|please))*[.!]?$",
            re.IGNORECASE,
        )
    ),
    # German, French, Spanish, Italian, Portuguese
    _Form(
        re.compile(
            r"\b(?:der|die|das|le|la|les|el|los|las|il|lo|o|a|l['’])\s*(?P<key>(?:[^\W\d_]+\s+){0,3}?[^\W\d_]+)\s+"
            r"(?:ist|sind|lautet|wird|est|sont|sera|es|son|será|è|sono|é|são|soll|doit être|debe ser)\s+"
            r"(?:(?:jetzt|nun|nunmehr|maintenant|désormais|ahora|adesso|ora|agora|auf|de|à)\s+)*"
            rf"{_VALUE}",
            re.IGNORECASE,
        )
    ),
    # Chinese
    _Form(
        re.compile(
            rf"(?P<key>[一-鿿]{{1,10}}?)(?:现在是|现在为|改为|改成|设为|设置为|是|为)\s*{_VALUE}"
        )
    ),
)
_IT = re.compile(
    rf"\b(?:it|that)(?:'s|’s|\s+is|\s+should be|\s+must be)\s+(?:now\s+)?{_VALUE}(?:\s+now)?[.!]?$"
    rf"|\bmake\s+(?:it|that)\s+(?P<made>{_ONE})(?:\s+instead)?[.!]?$",
    re.IGNORECASE,
)
_NO_KEY = re.compile(
    r"^(?:from|to)\b|\b(?:and|or|if|when|whenever|where|that|which|who|whose|because|i|we|you|he|she|they)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:not|never|avoid|without|\w+n['’]t)\s*$", re.IGNORECASE)
_CONSTANT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*|[a-z0-9]+(?:_[a-z0-9]+)+")
_THING = rf"(?:{_QUOTED}|{_DATE}|{_WORD})"
_REPLACEMENTS = (
    re.compile(
        rf"(?P<new>{_THING}),?\s+(?:instead of|rather than|in place of|in lieu of|over|and not|not)\s+"
        rf"(?:the\s+)?(?P<old>{_THING})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\binstead of\s+(?P<old>{_THING}),?\s+(?:please\s+)?(?:use|take|run|pick|choose)\s+"
        rf"(?P<new>{_THING})",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?:replace|swap|exchange)\s+(?P<old>{_THING})\s+(?:with|by|for)\s+(?P<new>{_THING})",
        re.IGNORECASE,
    ),
    re.compile(rf"\bfrom\s+(?P<old>{_THING})\s+to\s+(?P<new>{_THING})", re.IGNORECASE),
    re.compile(rf"\b(?:change|switch)\s+(?P<old>{_THING})\s+to\s+(?P<new>{_THING})", re.IGNORECASE),
    re.compile(
        rf"\b(?:not|no longer|isn't|forget|drop|scratch)\s+(?P<old>{_THING})[,;:.]?\s+"
        rf"(?:but|it(?:'s|\s+is)(?:\s+now)?|now|instead|use)\s+(?P<new>{_THING})",
        re.IGNORECASE,
    ),
    re.compile(rf"(?P<old>{_THING})\s*(?:->|→|=>)\s*(?P<new>{_THING})"),
)
# Of each of them, words of which one must be there: finding these is many times faster.
_HINTS = (
    ("instead of", "rather than", "in place of", "in lieu of", " over ", "not "),
    ("instead of",),
    ("replace", "swap", "exchange"),
    ("from",),
    ("change", "switch"),
    ("not", "no longer", "isn't", "forget", "drop", "scratch"),
    ("->", "→", "=>"),
)
_QUALIFIER = re.compile(
    rf"\b(?:for|in|on|of|under|within|at)\s+(?:{_DETERMINER}\s+)?(?P<what>[A-Za-z][\w-]*(?:\s+[A-Za-z][\w-]*)?)",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\s\(|\s(?:for|in|on|of|under|within|at)\s")
_EMPTY = word_set(
    "a actually again all also an and any are as at back be by current currently every for from going here i"
    " in is it its just lets let make maybe me my new no not now of on onwards or our out please point real"
    " set should so sure that the their then there this time to today too use using very was we were will with"
    " you your change switch update instead rather case order fact general addition particular must only"
    " never always keep ensure be have has le la les el der die das il lo project sorry correction remember"
)
_NO_VALUE = word_set(
    "a about all also an and any as at be been being but by can could did do does doing for from going had has"
    " have he her here his how i if in into it its just less like may me more most my no none not of off-limits"
    " or our out quite rather really she should so some something still such that the their them there these"
    " they this those to too up us used very was we what when where which who why will with would yet you your"
)
_SWITCHES = word_set("true false on off yes no enabled disabled none null")


@dataclass(frozen=True, slots=True)
class Stated:
    """A value as a sentence sets it."""

    key: str
    """What it is a value of, in the sentence's own words."""
    value: str
    plain: bool = True
    """Whether it looks like a value wherever it stands."""


def subject_of(key: str) -> frozenset[str]:
    """The words that make two keys the same, however they are spelt and ordered."""
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)
    return frozenset(re.findall(r"[^\W_]+", spread.lower())) - _EMPTY


def bare_subject_of(key: str) -> frozenset[str]:
    """The same without what the key says about where it holds: "port" of "port in staging"."""
    return subject_of(_PLACE.split(key, maxsplit=1)[0]) or subject_of(key)


def values_in(sentence: str) -> list[Stated]:
    """The values that a sentence sets, one a key."""
    if sentence.endswith(("?", "？")):
        return []
    found: dict[frozenset[str], Stated] = {}
    taken: list[tuple[int, int]] = []
    for form in _FORMS:
        for match in form.pattern.finditer(sentence):
            if any(
                match.start("value") < end and start < match.end("value") for start, end in taken
            ):
                continue
            stated = _stated(form, match, sentence)
            if stated is not None and subject_of(stated.key) not in found:
                found[subject_of(stated.key)] = stated
                taken.append(match.span("value"))
    return list(found.values())


def value_of_it(sentence: str) -> str | None:
    """The value in "it's 9090 now" and "make it 9090": of what, the sentence before says."""
    match = _IT.search(sentence)
    value = (match["value"] or match["made"]) if match is not None else None
    return bare(value) if value is not None and _is_plain(value, frozenset()) else None


def replacements_in(sentence: str) -> Iterator[tuple[str, str]]:
    """Old and new of each "X instead of Y"."""
    if sentence.endswith(("?", "？")):
        return
    lowered = sentence.lower()
    for pattern, hints in zip(_REPLACEMENTS, _HINTS, strict=True):
        if not any(hint in lowered for hint in hints):
            continue
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


def _stated(form: _Form, match: re.Match[str], sentence: str) -> Stated | None:
    key, value = match["key"], match["value"]
    words = subject_of(key)
    if not words or _NO_KEY.search(key) or _in_code(sentence, match):
        return None
    if form.named and not words & _NAMES and not _CONSTANT.fullmatch(key):
        return None
    if _DENIED.search(sentence, 0, match.start()):
        return None
    if value.split()[0].lower() in _NO_VALUE or value.lower() in (_EMPTY | _NAMES) - _SWITCHES:
        return None
    first = re.match(_ONE, value)
    plain = first is not None and _is_plain(first[0], words)
    if plain and first is not None and not value[first.end() :].strip().istitle():
        value = first[0]  # what follows a plain value says something else
    if not plain and (not form.loose or value.lower().endswith(("ing", "ed"))):
        return None
    return Stated(_qualified(key, sentence, match), bare(value), plain)


def _is_plain(value: str, words: frozenset[str]) -> bool:
    if value[0] in "`\"“'":
        return True
    lowered = value.lower()
    if lowered in _SWITCHES:
        return bool(words & _NAMES) or lowered in {"true", "false", "enabled", "disabled"}
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
