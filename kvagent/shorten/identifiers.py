"""Which words of a text name something that nothing else in it can stand for?

An agent can guess a sentence that it no longer sees, but not a path, a hash or a port. Words are
split off cheaply, and each distinct one is looked at closely only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import nlargest
from math import sqrt

# Everything but these separates words. A translation table of bytes is several times faster than a
# regular expression; bytes over 127 are letters of other scripts, mostly, and stay as they are.
_KEPT = frozenset(b"_./:\\@~+#%?&$-\n")
_SEPARATED = bytes(
    byte if byte >= 128 or bytes([byte]).isalnum() or byte in _KEPT else ord(" ")
    for byte in range(256)
)
_AROUND = ".:\\@+#%?&$-"  # punctuation, unless it stands inside of a name
_SHORTEST = 4
_LONGEST = 160  # beyond it a word is data (base64, a signed URL), not a name

_KIND = re.compile(
    r"""
      (?P<plain>     \d{4}-\d\d-\d\d\S* | \d\d?:\d\d\S* | \d+[./]\d+ )  # clock text and measures
    | (?P<exception> (?:\w+\.)*[A-Z]\w*(?:Error|Exception|Warning|Failure) )
    | (?P<url>       \w+://\S+ )
    | (?P<test>      \S+\.\w+::\S+ )
    | (?P<slashed>   \w+/\w+ )  # might be prose: "and/or"
    | (?P<path>      (?:[A-Za-z]:\\|[\w.@~+-]*/)\S*\w\S* | [\w.-]+\.[a-z]\w{0,4}:\d\S* )
    | (?P<number>    \d{4,} )
    | (?P<hash>      (?=[\w-]*\d)[0-9a-fA-F]{7,}(?:-[0-9a-fA-F]{4,})* )
    | (?P<symbol>    \w*[^\W\d_]\w*(?:(?:\.|::)\w+)+ | \w+_\w+
                   | [a-z]+[A-Z]\w+ | [A-Z][a-z]+[A-Z]\w* )
    | (?P<code>      [A-Za-z][A-Za-z.-]*\d[\w.-]* | v?\d+\.\d+\.\d[\w.:+-]* )  # item-4711, 1.2.3
    """,
    re.VERBOSE,
)
# What seeing one is worth to an agent, against a rare word of prose.
_WORTH = {
    "exception": 10.0,
    "path": 10.0,
    "test": 10.0,
    "url": 7.0,
    "hash": 7.0,
    "symbol": 7.0,
    "slashed": 3.0,
    "code": 3.0,
    "number": 3.0,
}
_WORTH_OF_PROSE = 1.0
_DIGITS = str.maketrans("123456789", "000000000")


def spaced(text: str) -> str:
    """`text` with spaces for all that separates words; its line feeds stay where they are."""
    separated = text.encode("utf-8", "surrogatepass").translate(_SEPARATED)
    result = separated.decode("utf-8", "surrogatepass")
    if "\\" in result:  # text within JSON: "first line\nsecond line"
        result = result.replace("\\n", "  ").replace("\\t", "  ").replace("\\r", "  ")
    return result


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a text that tell something.

    weights  what each word is worth, 0 if it tells nothing
    names  the name that each such word stands for, without the punctuation around it
    worth  what each name is worth, in the order of the text: the more, the more telling its kind
           and the rarer names of its shape (all digits alike) are
    prose  the names that are only words of prose, and no identifiers
    """

    weights: dict[str, float]
    names: dict[str, str]
    worth: dict[str, float]
    prose: AbstractSet[str]

    def names_in(self, spaced_line: str) -> set[str]:
        """The distinct names in a line (the order of the set must not matter to the caller)."""
        names = self.names
        return {names[word] for word in spaced_line.split() if word in names}

    def best_identifiers(self, count: int, without: AbstractSet[str]) -> list[str]:
        """The `count` identifiers that are worth most, earlier ones first among equals."""
        left = (name for name in self.worth if name not in without and name not in self.prose)
        return nlargest(count, left, key=self.worth.__getitem__)


def vocabulary_of(spaced_text: str) -> Vocabulary:
    """Looks at every distinct word of a text as `spaced` gives it."""
    names: dict[str, str] = {}
    kinds: dict[str, float] = {}
    shapes: dict[str, str] = {}
    counts: Counter[str] = Counter()
    prose: set[str] = set()
    words = Counter(spaced_text.split())
    for word, count in words.items():
        name = word.strip(_AROUND)
        if not _SHORTEST <= len(name) <= _LONGEST:
            continue
        if name.isalpha() and name[1:].islower():
            name = shape = name.lower()
            prose.add(name)
            kinds[name] = _WORTH_OF_PROSE
        else:
            match = _KIND.fullmatch(name)
            kind = match and match.lastgroup
            if not kind or kind == "plain":
                continue
            if kind == "url":  # what follows may have been cut at a separator
                name = name.partition("?")[0]
            shape = "hash" if kind == "hash" else name.translate(_DIGITS)
            kinds[name] = _WORTH[kind]
        names[word] = name
        shapes[name] = shape
        counts[shape] += count
    worth = {name: kind / sqrt(counts[shapes[name]]) for name, kind in kinds.items()}
    weights = dict.fromkeys(words, 0.0)
    weights.update((word, worth[name]) for word, name in names.items())
    return Vocabulary(weights, names, worth, prose)
