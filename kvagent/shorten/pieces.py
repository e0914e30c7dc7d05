"""Into which pieces is a text taken apart, so that some can be kept and others left out?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice, pairwise
from operator import ne

from kvagent.shorten.marker import repeated

# Combining accents, joiners, variation selectors, skin tones, low surrogates: never begin a piece.
_JOINED = r"\u0300-\u036f\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\udc00-\udfff"


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces of a text in order: a line each, a run of equal lines, or a part of a long line.

    texts  what is shown of each piece, without line feeds
    lines  the source line, from 1, with which each begins, and one more for the end of the text:
           two pieces with the same number are parts of one line
    times  how often the line stands in a row, for the pieces that stand for a run
    split  how many characters the lines hold that were split
    ended  whether the last line ends with a line feed
    numbered  whether each text begins with the number of its line
    """

    texts: Sequence[str]
    lines: Sequence[int]
    times: dict[int, int]
    split: int
    ended: bool
    numbered: bool = False

    @property
    def plain(self) -> bool:
        """Whether each piece is a line as it is."""
        return not self.times and not self.split

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def total_lines(self) -> int:
        """Lines in the source."""
        return self.lines[-1] - 1

    def last_line(self, piece: int) -> int:
        """The source line with which a piece ends."""
        return max(self.lines[piece], self.lines[piece + 1] - 1)

    def ends_line(self, piece: int) -> bool:
        """Whether the piece is the last of its line."""
        return self.lines[piece] != self.lines[piece + 1]

    def shown(self, piece: int) -> str:
        """The piece as it stands in a shortened text, where it is not a part of a line."""
        times = self.times.get(piece)
        return self.texts[piece] if times is None else f"{self.texts[piece]}\n{repeated(times)}"

    def characters(self, piece: int) -> int:
        """How many characters of the source the piece stands for, line feeds included."""
        count = (len(self.texts[piece]) + 1) * self.times.get(piece, 1)
        feed = self.ends_line(piece) and (self.ended or piece + 1 < len(self))
        return count if feed else count - 1

    def whole(self) -> str:
        """All pieces put together again."""
        shown = (self.shown(i) + "\n" * self.ends_line(i) for i in range(len(self)))
        return "".join(shown).removesuffix("\n")


def pieces_of(text: str, longest: int) -> Pieces:
    """Takes `text` apart; a line of more than twice `longest` characters becomes several pieces."""
    lines = text.split("\n")
    ended = lines[-1] == ""
    if ended:
        lines.pop()
    times = _runs(lines, longest)
    long = [index for index, size in enumerate(map(len, lines)) if size > 2 * longest]
    if not times and not long:
        return Pieces(lines, range(1, len(lines) + 2), {}, split=0, ended=ended)
    texts: list[str] = []
    numbers: list[int] = []
    folded: dict[int, int] = {}
    split = position = 0
    for index in sorted({*times, *long}):
        texts += lines[position:index]
        numbers += range(position + 1, index + 1)
        if index in times:
            folded[len(texts)] = times[index]
            parts = [lines[index]]
        else:
            parts = _split(lines[index], longest)
            split += len(lines[index])
        texts += parts
        numbers += [index + 1] * len(parts)
        position = index + times.get(index, 1)
    texts += lines[position:]
    numbers += range(position + 1, len(lines) + 2)
    return Pieces(texts, numbers, folded, split, ended)


def _runs(lines: list[str], longest: int) -> dict[int, int]:
    """The index at which each run of equal lines begins that folding makes shorter: its length."""
    changes = compress(range(1, len(lines)), map(ne, lines, islice(lines, 1, None)))
    runs: dict[int, int] = {}
    for start, end in pairwise(chain([0], changes, [len(lines)])):
        times = end - start
        if times > 1 and len(lines[start]) <= 2 * longest:
            saved = (times - 1) * (len(lines[start]) + 1)
            if saved > len(repeated(times)) + 1:
                runs[start] = times
    return runs


def _split(line: str, longest: int) -> list[str]:
    """Cuts behind a blank or a closing mark where there is one, never within a visible character."""
    border = rf"(?![{_JOINED}])(?<!\u200d)"
    return re.findall(
        rf".{{{longest // 2},{longest}}}(?<=[\s,;&>}}\])]){border}"
        rf"|.{{1,{longest}}}{border}|.{{1,{longest}}}",
        line,
        re.DOTALL,
    )
