"""Which long stretches of a text are data that nobody reads, and what is told in their place?

Base64, hexadecimal dumps in one word, and data: URIs: their kind, size and checksum, and how they
begin and end. Tokens and signed URLs are values, which an agent has to have whole: they stay.
"""

from __future__ import annotations

import hashlib
import re
from binascii import Error, a2b_base64
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kvagent.shorten import text as text_shortener
from kvagent.shorten.marker import marker, without_marker
from kvagent.shorten.result import Shortened, count_lines

_SHORTEST, _LEAST = 300, 2_000  # characters of one stretch, and of all of them, to be worth it
_SHARE = 0.25  # of the text; with less, there is more to be gained elsewhere
_LEAST_ROOM = 200
_HEAD = 160  # of a stretch that is alone, and half as much of its end; less where there are more
_LEAST_HEAD = 16

_STRETCH = re.compile(
    r"(?<![\w+/-])(?:data:(?P<kind>[\w.+-]+/[\w.+-]+)?[;\w=.+-]*,)?"
    r"(?P<data>[A-Za-z0-9+/_-]{300,}={0,2}(?![\w+/=-])"  # in one line
    r"|(?:[A-Za-z0-9+/]{60,76}\r?\n){5,}[A-Za-z0-9+/]{0,76}={0,2})"  # or wrapped, as in a mail
)
_NO_DATA = re.compile(r"[.\",(:]|\n\n|\t")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")
_IN_URL = re.compile(r"\w://[^\s\"'<>]*\Z")
# How the base64 of well-known kinds of files begins.
_KINDS = {
    "iVBORw0KGg": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
    "JVBERi0": "application/pdf",
    "UEsDB": "application/zip",
    "H4sI": "application/gzip",
}


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Data from `begin` to `end` of a text."""

    begin: int
    end: int
    kind: str
    data: str

    def told(self, head: int, tail: int) -> str:
        """What stands in its place."""
        return f"[{self._facts()}: {self.data[:head]}…{self.data[-tail:]}]"

    def _facts(self) -> str:
        content = self.data.encode()
        coding = "hex"
        if _HEXADECIMAL.fullmatch(self.data):
            size = len(content) // 2
        else:
            coding = "base64"
            try:
                content = a2b_base64(content.translate(bytes.maketrans(b"-_", b"+/")))
            except Error:
                coding = "data"
            size = len(content)
        checksum = hashlib.sha256(content).hexdigest()[:12]
        kind = self.kind or next(
            (kind for begin, kind in _KINDS.items() if self.data.startswith(begin)), ""
        )
        return ", ".join(filter(None, (kind, f"{size} bytes of {coding}", f"sha256 {checksum}")))


def shorten(
    text: str,
    budget: int,
    *,
    handle: str | None = None,
    source: str | None = None,  # noqa: ARG001 - what every shortener is given
    known: AbstractSet[str] = frozenset(),
) -> Shortened | None:
    """Shortens a text of which a good part is data to at most `budget` characters; None for others.

    What stands around the data is shortened as any text where it is still too long.
    """
    if budget < _LEAST_ROOM or len(text) < _LEAST:
        return None
    stretches = list(_stretches(text))
    data = sum(stretch.end - stretch.begin for stretch in stretches)
    if data < max(_LEAST, _SHARE * len(text)):
        return None
    each = budget // (4 * len(stretches))
    head = min(_HEAD, max(_LEAST_HEAD, each * 2 // 3))
    rest = _folded(text, stretches, head)
    kept = len(text) - data + len(stretches) * (head + head // 2)
    notes = [f"{len(stretches)} blobs folded" if len(stretches) > 1 else "1 blob folded"]
    whole = f"{marker(kept, len(text), 'characters', handle, notes)}\n{rest}"
    if len(whole) <= budget:
        return Shortened(whole, kept, len(text) - kept, "characters", lossless=False)
    if any("\n" in stretch.data for stretch in stretches):
        return None  # the lines of what is left would not be those of the source
    return _shortened_further(text, rest, budget, notes, handle, known)


def fold(text: str) -> str:
    """`text` with all data in it told in a few words."""
    return _folded(text, list(_stretches(text)), _LEAST_HEAD)


def _folded(text: str, stretches: Sequence[_Stretch], head: int) -> str:
    parts: list[str] = []
    end = 0
    for stretch in stretches:
        parts += [text[end : stretch.begin], stretch.told(head, head // 2)]
        end = stretch.end
    return "".join([*parts, text[end:]])


def _shortened_further(
    text: str, rest: str, budget: int, notes: list[str], handle: str | None, known: AbstractSet[str]
) -> Shortened | None:
    """What is left of `text` without its data is still too long: some of its lines are chosen."""
    total = count_lines(text)
    longest = len(marker(0, total, "lines", handle, [*notes, "repeats folded"])) + len(str(total))
    inner = text_shortener.shorten(rest, budget - longest, known=known)
    if inner.unit != "lines":
        return None
    body = without_marker(inner.text)
    standing = set(body.split("\n"))
    # A line with data in it does not stand whole.
    pairs = zip(text.split("\n"), rest.split("\n"), strict=True)
    kept = inner.kept - sum(line != before and line in standing for before, line in pairs)
    kept = max(0, kept)
    head = marker(kept, total, "lines", handle, notes)
    return Shortened(f"{head}\n{body}", kept, total - kept, "lines", lossless=False)


def _stretches(text: str) -> Iterator[_Stretch]:
    for begin, end in _without_blanks(text):
        for match in _STRETCH.finditer(text, begin, end):
            data = match["data"]
            if not _is_value(text, match) and _is_dense(data):
                data = data.rstrip("\r\n")
                yield _Stretch(match.start(), match.end(), match["kind"] or "", data)


def _without_blanks(text: str) -> Iterator[tuple[int, int]]:
    """The parts between two blanks in which there may be data.

    Half a stretch stands at one of the places of which a whole one covers some: this tells at once
    that most texts have none.
    """
    half = _SHORTEST // 2
    end = 0
    for at in range(0, len(text) - half + 1, half):
        if " " in text[at : at + half] or at < end or _NO_DATA.search(text, at, at + half):
            continue
        begin, end = text.rfind(" ", 0, at) + 1, text.find(" ", at)
        end = end if end >= 0 else len(text)
        yield begin, end


def _is_value(text: str, match: re.Match[str]) -> bool:
    """A signed URL, or a part of a token with dots between (JWT)."""
    if match["kind"] is not None:
        return False
    before = text[max(0, match.start() - 2_000) : match.start()]
    behind = text[match.end() : match.end() + 1]
    return before.endswith(".") or behind == "." or _IN_URL.search(before) is not None


def _is_dense(data: str) -> bool:
    """Whether it looks random, unlike a rule of dashes or a long path."""
    sample = data[:_SHORTEST]
    if _HEXADECIMAL.fullmatch(sample):
        return len(set(sample)) > 8
    mixed = any(map(str.isupper, sample)) and any(map(str.islower, sample))
    return mixed and any(map(str.isdigit, sample)) and len(set(sample)) > 30
