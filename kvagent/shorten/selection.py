"""Which pieces of a text stand, how many characters are left for more, and how does it read?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

from kvagent.shorten.marker import gap_of_characters, gap_of_lines
from kvagent.shorten.pieces import Pieces
from kvagent.shorten.result import Unit


class Selection:
    """The pieces that stand, within a room of so many characters, gaps included.

    `room` is what is left; `take` keeps it from falling below zero. `gap` is the most that the
    words in the place of a gap take: none where the lines are numbered and so tell it themselves.
    `sizes` are the characters of each piece and its line feed; `stands` is 1 for those that stand.
    """

    def __init__(self, pieces: Pieces, unit: Unit, room: int) -> None:
        """Nothing stands yet; `room` becomes negative if it does not even hold the gap for all."""
        self.pieces = pieces
        self.unit = unit
        self.stands = bytearray(len(pieces))
        self.sizes = [len(text) + 1 for text in pieces.texts]
        for piece in pieces.times:
            self.sizes[piece] = len(pieces.shown(piece)) + 1
        self.gap = 0 if pieces.numbered else self._widest_gap()
        self.room = room - self.gap

    def _widest_gap(self) -> int:
        last = self.pieces.total_lines
        widest = len(gap_of_lines(last, last + 1))
        if self.pieces.split:
            characters = sum(map(len, self.pieces.texts)) + len(self.pieces)
            widest = max(widest, len(gap_of_characters(characters)))
        return widest + 1

    def __len__(self) -> int:
        return len(self.stands)

    def __contains__(self, piece: int) -> bool:
        return bool(self.stands[piece])

    def kept(self) -> list[int]:
        """The pieces that stand, in order."""
        return list(compress(range(len(self.stands)), self.stands))

    def cost(self, piece: int) -> int:
        """The characters that taking a piece would use: none or fewer where it closes a gap."""
        gaps = -1
        gaps += piece > 0 and not self.stands[piece - 1]
        gaps += piece + 1 < len(self.stands) and not self.stands[piece + 1]
        return self.sizes[piece] + gaps * self.gap

    def take(self, piece: int, cost: int | None = None) -> bool:
        """Lets a piece stand if there is room for it; True if it stands now.

        `cost` is what `cost` gives for it, where that is known already.
        """
        if not self.stands[piece]:
            if cost is None:
                cost = self.cost(piece)
            if cost > self.room:
                return False
            self.stands[piece] = 1
            self.room -= cost
        return True

    def extend(self) -> None:
        """Fills the room from the two ends of the text."""
        forward, backward = self.stands.find(0), self.stands.rfind(0)
        while forward >= 0 and self.take(forward):
            forward = self.stands.find(0, forward)
        while backward >= 0 and self.take(backward):
            backward = self.stands.rfind(0, 0, backward)

    def close_narrow_gaps(self) -> None:
        """Takes what is no longer than the words that would stand in its place."""
        for begin, end in list(self._gaps()):
            if end - begin < self.gap and sum(self.sizes[begin:end]) <= self.gap:
                for piece in range(begin, end):
                    self.take(piece)

    def count(self) -> int:
        """How much of the source stands, in `unit`s; of lines only those of which all stands."""
        pieces = self.pieces
        if self.unit == "characters":
            return sum(map(pieces.characters, self.kept()))
        if pieces.plain:
            return self.stands.count(1)
        missing = counted = 0
        for begin, end in self._gaps():
            first, last = pieces.lines[begin], pieces.last_line(end - 1)
            missing += last - max(first, counted + 1) + 1
            counted = last
        return pieces.total_lines - missing

    def standing(self) -> str:
        """The pieces that stand, without the gaps."""
        return "\n".join(compress(self.pieces.texts, self.stands))

    def text(self) -> str:
        """The pieces that stand, with a marker in place of each gap."""
        if self.pieces.numbered:
            return self.standing()
        parts: list[str] = []
        position = 0
        for begin, end in self._gaps():
            parts += self._stretch(position, begin)
            parts.append(self._marked_gap(begin, end))
            position = end
        parts += self._stretch(position, len(self))
        return "".join(parts).removesuffix("\n")

    def _gaps(self) -> Iterator[tuple[int, int]]:
        begin = self.stands.find(0)
        while begin >= 0:
            end = self.stands.find(1, begin)
            end = end if end >= 0 else len(self)
            yield begin, end
            begin = self.stands.find(0, end)

    def _stretch(self, begin: int, end: int) -> Iterator[str]:
        if self.pieces.plain:
            yield from (f"{text}\n" for text in self.pieces.texts[begin:end])
            return
        for piece in range(begin, end):
            yield self.pieces.shown(piece)
            if self.pieces.ends_line(piece):
                yield "\n"

    def _marked_gap(self, begin: int, end: int) -> str:
        pieces = self.pieces
        first, last = pieces.lines[begin], pieces.last_line(end - 1)
        behind = "\n" if pieces.ends_line(end - 1) else ""
        within_line = begin > 0 and not pieces.ends_line(begin - 1)
        if self.unit == "characters" or (within_line and first == last):
            return gap_of_characters(sum(map(pieces.characters, range(begin, end)))) + behind
        return ("\n" if within_line else "") + gap_of_lines(first, last) + "\n"
