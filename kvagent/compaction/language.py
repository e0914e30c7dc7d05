"""In which script and language is a text written, as far as its commonest words show?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from kvagent.compaction.quotes import unquoted
from kvagent.compaction.words import word_set

_SCRIPTS: Mapping[str, re.Pattern[str]] = {
    "Latin": re.compile(r"[A-Za-zÀ-ɏ]"),
    "Greek": re.compile(r"[Ͱ-Ͽ]"),
    "Cyrillic": re.compile(r"[Ѐ-ӿ]"),
    "Hebrew": re.compile(r"[֐-׿]"),
    "Arabic": re.compile(r"[؀-ۿ]"),
    "Devanagari": re.compile(r"[ऀ-ॿ]"),
    "Thai": re.compile(r"[฀-๿]"),
    "Hangul": re.compile(r"[가-힯]"),
    "Chinese or Japanese": re.compile(r"[぀-ヿ一-鿿]"),
}
_DENSE = frozenset(
    ("Hangul", "Chinese or Japanese")
)  # one letter says as much as three of the others
# The commonest words of a language that the others in this table do not share.
_COMMON: Mapping[str, frozenset[str]] = {
    "English": word_set(
        "the and of to was were is are with that this from for not which by an be been had has it its"
    ),
    "German": word_set(
        "der die das und ist nicht mit von dem den wurde wurden ein eine einer zu auf für im auch sich bei"
    ),
    "French": word_set(
        "le les des et est dans une pour pas sur avec qui par été au du ce cette sont ont était aux"
    ),
    "Spanish": word_set(
        "el los las y es en del una para que por con fue no se al como más está fueron era sus"
    ),
    "Italian": word_set(
        "il gli di che è nel della per con non stato sono del alla una dei nella anche dal sul era"
    ),
    "Portuguese": word_set(
        "os as do da dos das em um uma não com foi para que por no na ao mais são foram pelo"
    ),
    "Dutch": word_set(
        "de het een van en is dat niet met op voor zijn werd aan door naar bij ook maar worden"
    ),
}
_NAMES = re.compile(r"\S*[\d_/\\.@#$%]\w\S*|\S*\w\(\)\S*")
_LETTERS = 40  # fewer say nothing of a text's script
_HITS = 8  # fewer common words say nothing of its language


def script_of(text: str) -> str | None:
    """The script of most of what is said in a text, quotations and names apart."""
    said = _NAMES.sub(" ", unquoted(text))
    counts = {
        name: len(letters.findall(said)) * (3 if name in _DENSE else 1)
        for name, letters in _SCRIPTS.items()
    }
    most = max(counts, key=counts.__getitem__)
    return most if counts[most] >= _LETTERS and counts[most] * 2 > sum(counts.values()) else None


def language_of(text: str) -> str | None:
    """The language of what is said in a text; None where it cannot be told, or has no table."""
    counts = Counter(re.findall(r"[^\W\d_]+", _NAMES.sub(" ", unquoted(text)).lower()))
    hits = {name: sum(counts[word] for word in common) for name, common in _COMMON.items()}
    first, second = sorted(hits, key=hits.__getitem__, reverse=True)[:2]
    return first if hits[first] >= _HITS and hits[first] > 1.3 * hits[second] else None
