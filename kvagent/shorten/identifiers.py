"""Which words of a text name something that nothing else in it can stand for?

An agent can guess a sentence that it no longer sees, but not a path, a hash or a port. Words are
split off cheaply, and each distinct one is looked at closely only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

# Everything but these separates words. A translation table of bytes is several times faster than a
# regular expression; bytes over 127 are letters of other scripts, mostly, and stay as they are.
_KEPT = frozenset(b"_./:\\@~+#%?&$-\n")
_SEPARATED = bytes(
    byte if byte >= 128 or bytes([byte]).isalnum() or byte in _KEPT else ord(" ")
    for byte in range(256)
)
_BEFORE, _BEHIND = ":\\+#%?&$-", ".:\\@+#%?&$-"  # punctuation, unless inside of a name
_SHORTEST = 4
_LONGEST = 160  # beyond it a word is data (base64, a signed URL), not a name

_EXCEPTIONS = ("Error", "Exception", "Warning", "Failure")
_KIND = re.compile(
    r"""
      (?P<measure> \d{4}-\d\d-\d\d\S* | \d\d?:\d\d\S* | \d+[./]\d+ )  # clock text as well
    | (?P<slashed> \w+/\w+ )  # might be prose: "and/or"
    | (?P<path>    (?:[A-Za-z]:\\|[\w.@~+-]*/[^\s\\]*\w)\S* | [\w.-]+\.[a-z]\w{0,4}:\d\S* )
    | (?P<number>  \d{4,} )
    | (?P<hash>    (?=[\w-]*\d)[0-9a-fA-F]{7,}(?:-[0-9a-fA-F]{4,})* )
    | (?P<symbol>  \w*[^\W\d_]\w*(?:(?:\.|::)\w+)+ | \w+_\w+
                 | [a-z]+[A-Z]\w+ | [A-Z][a-z]+[A-Z]\w* )
    | (?P<code>    [A-Za-z][A-Za-z.-]*\d[\w.-]* | v?\d+\.\d+\.\d[\w.:+-]* )  # item-4711, 1.2.3
    """,
    re.VERBOSE,
)
_PLACE = re.compile(r".+?:\d+(?::\d+)?(?=:)")  # path:line of a search hit, its text behind it
# What seeing one is worth to an agent, against a word of prose.
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
    "prose": 1.0,
    "measure": 0.0,
    "none": 0.0,
}
_WORTH_NAMING = 0.3  # of what there are hundreds, a few dozen more or less say nothing
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def spaced(text: str) -> str:
    """`text` with spaces for all that separates words; its line feeds stay where they are."""
    separated = text.encode("utf-8", "surrogatepass").translate(_SEPARATED)
    result = separated.decode("utf-8", "surrogatepass")
    if "\\" in result:  # text within JSON: "first line\nsecond line"
        result = result.replace("\\n", "  ").replace("\\t", "  ").replace("\\r", "  ")
    return result


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a text, and what they tell.

    weights      what each word is worth, 0 if it tells nothing: the more, the more telling its kind
                 and the rarer the words of its shape (all digits alike) are
    names        the name that each telling word stands for, without the punctuation around it
    identifiers  the names that are more than a word of prose, those worth most first, and equals
                 in the order of the text
    """

    weights: dict[str, float]
    names: dict[str, str]
    identifiers: Sequence[str]


def vocabulary_of(spaced_text: str) -> Vocabulary:
    """Looks at every distinct word of a text as `spaced` gives it."""
    counts = Counter(spaced_text.split())
    shapes = _shapes(counts)
    kinds = {shape: _kind(shape.lstrip(_BEFORE).rstrip(_BEHIND)) for shape in dict.fromkeys(shapes)}
    worth = _worth(kinds, shapes, counts.values())
    weights = dict(zip(counts, map(worth.__getitem__, shapes), strict=True))
    names: dict[str, str] = {}
    identifiers: dict[str, float] = {}
    for (word, weight), shape in zip(weights.items(), shapes, strict=True):
        if weight:
            names[word] = name = _name(word)
            if weight >= _WORTH_NAMING and kinds[shape] != "prose":
                identifiers[name] = weight
    ranked = sorted(identifiers, key=identifiers.__getitem__, reverse=True)
    return Vocabulary(weights, names, ranked)


def _shapes(words: Iterable[str]) -> list[str]:
    """For each word, the same with every digit a 0: words of one shape are of one kind."""
    joined = "\n".join(words).encode("utf-8", "surrogatepass").translate(_DIGITS)
    return joined.decode("utf-8", "surrogatepass").split()


def _worth(kinds: dict[str, str], shapes: Iterable[str], counts: Iterable[int]) -> dict[str, float]:
    """What a word of each shape is worth."""
    totals = dict.fromkeys(kinds, 0)
    for shape, count in zip(shapes, counts, strict=True):
        totals[shape] += count
    # The letters of a hash say no more than its digits: all of them share their rarity.
    hashes = sum(total for shape, total in totals.items() if kinds[shape] == "hash")
    return {
        shape: _WORTH[kind] / sqrt(hashes if kind == "hash" else totals[shape])
        for shape, kind in kinds.items()
    }


def _kind(shape: str) -> str:
    if not _SHORTEST <= len(shape) <= _LONGEST:
        return "none"
    if shape.isalpha() and (shape[1:] == shape[1:].lower() or shape.isupper()):
        return "prose"
    if shape.endswith(_EXCEPTIONS) and shape.rpartition(".")[2][0].isupper():
        return "exception"
    if "://" in shape:
        return "url"
    if "::" in shape and "." in shape.partition("::")[0]:
        return "test"
    match = _KIND.fullmatch(shape)
    return match.lastgroup or "none" if match is not None else "none"


def _name(word: str) -> str:
    name = word.lstrip(_BEFORE).rstrip(_BEHIND)
    if ":" in name:
        if "://" in name:  # its query may have been cut where words are separated
            return name.partition("?")[0]
        place = _PLACE.match(name)
        return place[0] if place is not None else name
    return name
