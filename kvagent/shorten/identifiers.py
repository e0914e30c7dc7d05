"""Which words of a text name something that nothing else in it can stand for?

An agent can guess a sentence that it no longer sees, but not a path, a hash or a port. Words are
split off cheaply, and each distinct one is looked at closely only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
# What seeing one is worth to an agent, against a word of prose. Recorded agents used about one in
# five of the names of things again, one in twenty of the others.
_WORTH = {
    "exception": 10.0,
    "path": 10.0,
    "test": 10.0,
    "symbol": 10.0,
    "url": 7.0,
    "hash": 7.0,
    "slashed": 3.0,
    "code": 3.0,
    "number": 3.0,
    "prose": 1.0,
    "measure": 0.0,
    "none": 0.0,
}
_UNIT = 1000  # weights are whole numbers: their sum is the same in any order
_ALREADY_LONG = 20  # so many characters more are worth as much as one more name
_WORTH_NAMING = 300  # of what there are hundreds, a few dozen more or less say nothing
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

    weights      what each word is worth, 0 if it tells nothing: the more, the more telling its kind,
                 the longer it is, and the fewer others have its shape (all digits alike)
    names        of the words with punctuation around a name, and of the names that stand so as well
                 as without: the name
    spellings    the words that stand for each of these names
    identifiers  the names that are more than a word of prose, those worth most for their length
                 first, and equals in the order of the text
    """

    weights: dict[str, int]
    names: dict[str, str]
    spellings: dict[str, list[str]]
    identifiers: Sequence[str]


def vocabulary_of(spaced_text: str) -> Vocabulary:
    """Looks at every distinct word of a text as `spaced` gives it."""
    words = list(dict.fromkeys(spaced_text.split()))
    shapes = _shapes(words)
    worth, namable = _worth(Counter(shapes))
    weights = dict(zip(words, map(worth.__getitem__, shapes), strict=True))
    names: dict[str, str] = {}
    spellings: dict[str, list[str]] = {}
    ranks: dict[str, float] = {}
    for (word, weight), shape in zip(weights.items(), shapes, strict=True):
        if not weight:
            continue
        name = word
        if not word.isalnum():
            name = _name(word)
            if name != word:
                names[word] = name
                spellings.setdefault(name, []).append(word)
        if shape in namable:
            ranks[name] = weight / (len(name) + len(", "))
    for name, spelled in spellings.items():
        if name in weights:
            names[name] = name
            spelled.append(name)
    return Vocabulary(weights, names, spellings, sorted(ranks, key=ranks.__getitem__, reverse=True))


def _shapes(words: Iterable[str]) -> list[str]:
    """For each word, the same with every digit a 0: words of one shape are of one kind."""
    joined = "\n".join(words).encode("utf-8", "surrogatepass").translate(_DIGITS)
    return joined.decode("utf-8", "surrogatepass").split()


def _worth(counts: Counter[str]) -> tuple[dict[str, int], set[str]]:
    """What a word of each shape is worth, and the shapes that are worth naming."""
    kinds = {shape: _kind(shape) for shape in counts}
    # The letters of a hash say no more than its digits: all of them share their rarity.
    hashes = sum(count for shape, count in counts.items() if kinds[shape] == "hash")
    worth: dict[str, int] = {}
    namable: set[str] = set()
    for shape, count in counts.items():
        kind = kinds[shape]
        weight = _UNIT * _WORTH[kind]
        if kind != "prose":
            if count > 1 or kind == "hash":
                weight /= sqrt(hashes if kind == "hash" else count)
            if weight >= _WORTH_NAMING:
                namable.add(shape)
        worth[shape] = int(weight * (1 + len(shape) / _ALREADY_LONG))
    return worth, namable


@lru_cache(maxsize=1 << 15)  # many texts of a conversation are made of the same words
def _kind(word: str) -> str:
    shape = word.lstrip(_BEFORE).rstrip(_BEHIND)
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
