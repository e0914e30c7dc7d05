"""Which lines of many texts stand, where there is room for few of them?

All texts share one room. The first and the last line of each say what it is and how it ended. Then
a line is worth what it names that stands nowhere else in the prompt, and lines go before others by
their worth for each token: so a text that repeats what others say takes no room, and one that alone
holds much takes a lot. What the lines left out name beside that is listed behind each text, the
names worth most for their length first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from kvagent.shorten.clean import clean
from kvagent.shorten.identifiers import LINE_END, identifiers, weights_of, words_of
from kvagent.shorten.marker import footer, marker
from kvagent.shorten.pieces import pieces_of
from kvagent.shorten.result import Unit
from kvagent.shorten.selection import Selection

# Of the room. Without lines nobody knows what a name is about; without names, what there is.
_FOR_LINES = 0.5
_LONGEST_PIECE = 200  # characters; some 50 tokens, so that no piece alone fills the room
_MISSES = 100  # so many pieces that do not fit: the room is as good as full
_UNLIMITED = 1 << 60
_LISTING = len(footer(["x"], "", _UNLIMITED)) - len("x")


class Candidate:
    """A text that shall become shorter, and what stands of it."""

    def __init__(
        self, text: str, rate: float, note: str | None = None, opening: float = 0.0
    ) -> None:
        """
        Args:
            rate: tokens of a character of it, as estimated.
            note: what its marker says beside.
            opening: tokens that its first line takes beside its own, for what stands above it.
        """
        self.rate = rate
        self._opening = opening
        self._notes = () if note is None else (note,)
        self._pieces = pieces = pieces_of(clean(text), _LONGEST_PIECE)
        self._unit: Unit = "characters" if pieces.split * 2 > len(text) else "lines"
        self.words: list[list[str]] = [[]]
        """Of each piece."""
        for word in words_of("\n".join(pieces.texts)):
            if word == LINE_END:
                self.words.append([])
            else:
                self.words[-1].append(word)
        self.words.pop()
        self.clear()

    def clear(self) -> None:
        """Nothing of it stands."""
        self.selection = Selection(self._pieces, self._unit, _UNLIMITED)
        self._empty = True
        self.names: list[str] = []
        """What is listed behind the lines."""

    def cost(self, piece: int) -> float:
        """Tokens that it takes to let a piece stand."""
        cost = max(1, self.selection.cost(piece)) * self.rate
        return cost + self._opening if self._empty else cost

    def take(self, piece: int, weights: dict[str, int]) -> None:
        """Let a piece stand; what it names is worth nothing more."""
        self.selection.take(piece)
        self._empty = False
        weights.update(dict.fromkeys(self.words[piece], 0))

    def reads(self, handle: str | None) -> str:
        """The text as it stands, with its marker."""
        pieces, total = self._pieces, self._pieces.total_lines
        if self._unit == "characters":
            total = sum(map(pieces.characters, range(len(pieces))))
        kept = self.selection.count()
        parts = [marker(min(kept, total), total, self._unit, handle, self._notes)]
        if kept:
            parts.append(self.selection.text())
        listed = footer(self.names, "", _UNLIMITED)
        return "\n".join([*parts, listed] if listed else parts)


def divide(
    candidates: Sequence[Candidate], standing: Iterable[str], room: float, *, ends: bool = True
) -> None:
    """Let as many lines and names of the candidates stand as the room, in tokens, has place for.

    ``standing`` are the texts that stand in the prompt whole: what they name is worth nothing more.
    Markers are not counted. Of equals, the later candidates go first. ``ends`` says whether the
    first and the last line of each go before all others.
    """
    for each in candidates:
        each.clear()
    around = [words_of(text) for text in standing]
    words = [word for some in around for word in some]
    words += [word for each in candidates for piece in each.words for word in piece]
    weights = weights_of(words)
    for some in around:
        weights.update(dict.fromkeys(some, 0))
    weights[LINE_END] = 0
    for_names = room * (1 - _FOR_LINES)
    left = room - for_names
    if ends:
        left = _take_ends(candidates, weights, left)
    left = _take_lines(candidates, weights, left)
    _list_names(candidates, weights, for_names + left)


def _take_ends(candidates: Sequence[Candidate], weights: dict[str, int], room: float) -> float:
    """Returns the room that is left."""
    for candidate in reversed(candidates):
        for piece in range(len(candidate.selection))[:: max(1, len(candidate.selection) - 1)]:
            cost = candidate.cost(piece)
            if piece not in candidate.selection and cost <= room:
                candidate.take(piece, weights)
                room -= cost
    return room


def _take_lines(candidates: Sequence[Candidate], weights: dict[str, int], room: float) -> float:
    """Returns the room that is left."""
    weight = weights.__getitem__

    def worth(candidate: Candidate, piece: int) -> int:
        return sum(map(weight, set(candidate.words[piece])))

    # At first what each piece can be worth for a token at most: its words may stand elsewhere when
    # it is its turn.
    heap: list[tuple[float, int, int]] = []
    for number, candidate in enumerate(candidates):
        for piece, words in enumerate(candidate.words):
            bound = sum(map(weight, words))
            if bound:
                heap.append((-bound / candidate.cost(piece), -number, piece))
    heapify(heap)
    missed = 0
    while heap and missed < _MISSES:
        _, place, piece = heappop(heap)
        candidate = candidates[-place]
        if piece in candidate.selection or not (value := worth(candidate, piece)):
            continue
        cost = candidate.cost(piece)
        entry = (-value / cost, place, piece)
        if heap and entry > heap[0]:
            heappush(heap, entry)
        elif cost > room:
            missed += 1
        else:
            candidate.take(piece, weights)
            room -= cost
            for near in (piece - 1, piece + 1):  # cheaper now: it needs no gap of its own
                if 0 <= near < len(candidate.selection) and near not in candidate.selection:
                    heappush(heap, (-worth(candidate, near) / candidate.cost(near), place, near))
    return room


def _list_names(candidates: Sequence[Candidate], weights: dict[str, int], room: float) -> None:
    holders = {  # of several texts that hold a word, the last one
        word: candidate for candidate in candidates for words in candidate.words for word in words
    }
    missed = 0
    for name in identifiers(weights):
        holder = holders.get(name)
        if holder is None:
            continue
        cost = (len(name) + len(", ") + (0 if holder.names else _LISTING)) * holder.rate
        if cost <= room:
            holder.names.append(name)
            room -= cost
        elif (missed := missed + 1) > _MISSES:
            break
