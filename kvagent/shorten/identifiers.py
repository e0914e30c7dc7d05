"""Which words of a text name something that nothing else in it can stand for?

An agent can guess a sentence that it no longer sees, but not a path, a hash or a port. Words are
split off cheaply, and each distinct one is looked at closely only once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import filterfalse
from math import sqrt

LINE_END = "\0"

# Everything but these separates words. A translation table of bytes is several times faster than a
# regular expression; bytes over 127 are letters of other scripts, mostly, and stay as they are.
_KEPT = frozenset(b"_./:\\@~-")
_SEPARATED = bytes(
    byte if byte >= 128 or bytes([byte]).isalnum() or byte in _KEPT else 0 if byte == 10 else 32
    for byte in range(256)
)
_ESCAPED = (b"\\n", b"\\t", b"\\r", b'\\"')
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
_WORTH_MOST = 4000  # no word of prose is, nor a number that is one of many
_MOST_REMEMBERED = 1 << 15  # words; a conversation has about as many
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def words_of(text: str) -> list[str]:
    """The words of `text` in order, with `LINE_END` behind those of each line."""
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:  # text within JSON: "first line\\nsecond line"
        for escaped in _ESCAPED:
            data = data.replace(escaped, b"  ")
    data = data.translate(_SEPARATED).replace(b"\0", b" \0 ") + b" \0"
    # Punctuation behind a word is none of it.
    data = data.replace(b": ", b"  ").replace(b". ", b"  ")
    return data.decode("utf-8", "surrogatepass").split()


def weights_of(words: Iterable[str]) -> dict[str, int]:
    """What each distinct word is worth, 0 if it tells nothing.

    The more, the more telling its kind, the longer it is, and the fewer others have its shape (all
    digits alike).
    """
    distinct = list(dict.fromkeys(words))
    shapes = _shapes(distinct)
    worth = dict(zip(shapes, map(_weight, shapes), strict=True))
    # Only words with digits can have the shape of others.
    counts = Counter([shape for shape in shapes if "0" in shape])
    # The letters of a hash say no more than its digits: all of them share their rarity.
    hashes = sum(count for shape, count in counts.items() if worth[shape] < 0)
    for shape, count in counts.items():
        weight = worth[shape]
        worth[shape] = int(abs(weight) / sqrt(hashes if weight < 0 else count))
    return dict(zip(distinct, map(worth.__getitem__, shapes), strict=True))


def identifiers(weights: Mapping[str, int]) -> Iterator[str]:
    """The names among the words that are worth naming, those worth most first."""
    most = [word for word, weight in weights.items() if weight >= _WORTH_MOST]
    yield from _ranked(most, weights)
    some = [word for word, weight in weights.items() if _WORTH_NAMING <= weight < _WORTH_MOST]
    yield from _ranked(filterfalse(_is_prose, some), weights)


def _ranked(words: Iterable[str], weights: Mapping[str, int]) -> list[str]:
    """The names in the words, those worth most for their length first."""
    ranks = {_name(word): -weights[word] / (len(word) + len(", ")) for word in words}
    return sorted(ranks, key=ranks.__getitem__)


class _Remembered(dict[str, int]):
    """What a function gives for words, none of them long: the texts of a conversation are made of
    the same words.

    A dictionary is looked up several times faster than `lru_cache`, which keeps an order.
    """

    def __init__(self, function: Callable[[str], int]) -> None:
        self._function = function

    def __missing__(self, word: str) -> int:
        value = self._function(word)
        if len(word) <= _LONGEST:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[word] = value
        return value


def _alone(shape: str) -> int:
    """What a word is worth if no other has its shape; negative if all of its kind share that."""
    kind = _kind(shape.strip(".:-\\"))
    weight = int(_UNIT * _WORTH[kind] * (1 + len(shape) / _ALREADY_LONG))
    return -weight if kind == "hash" else weight


_weight = _Remembered(_alone).__getitem__


def _shapes(words: Sequence[str]) -> list[str]:
    """For each word, the same with every digit a 0: words of one shape are of one kind."""
    joined = "\n".join(words).encode("utf-8", "surrogatepass").translate(_DIGITS)
    return joined.decode("utf-8", "surrogatepass").split("\n") if words else []


@lru_cache(maxsize=1 << 15)
def _is_prose(word: str) -> bool:
    return word.isalpha() and (word[1:] == word[1:].lower() or word.isupper())


def _kind(shape: str) -> str:
    if not _SHORTEST <= len(shape) <= _LONGEST:
        return "none"
    if _is_prose(shape):
        return "prose"
    if shape.endswith(_EXCEPTIONS) and shape.rpartition(".")[2][0].isupper():
        return "exception"
    if "://" in shape:
        return "url"
    if "::" in shape and "." in shape.partition("::")[0]:
        return "test"
    match = _KIND.fullmatch(shape)
    return match.lastgroup or "none" if match is not None else "none"


@lru_cache(maxsize=1 << 15)
def _name(word: str) -> str:
    name = word.lstrip("-:").rstrip(".:-\\")
    if ":" in name and "://" not in name:
        place = _PLACE.match(name)
        return place[0] if place is not None else name
    return name
