"""Which lines of many texts stand, where there is room for few of them?

All texts share one room. The first and the last line of each say what it is and how it ended. Then
a line is worth what it names that stands nowhere else in the prompt, and lines go before others by
their worth for each token: so a text that repeats what others say takes no room, and one that alone
holds much takes a lot. What the lines left out name beside that is listed behind each text, the
names worth most for their length first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from operator import sub

from kvagent.shorten.clean import clean
from kvagent.shorten.identifiers import LINE_END, identifiers, weights_of, words_of
from kvagent.shorten.marker import footer, marker
from kvagent.shorten.pieces import pieces_of
from kvagent.shorten.result import Unit
from kvagent.shorten.selection import Selection

# Of the room. Without lines nobody knows what a name is about; without names, what there is.
_FOR_NAMES = 0.5
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
        self.text = text
        self.rate = rate
        self._opening = opening
        self._notes = () if note is None else (note,)
        self._pieces = pieces = pieces_of(clean(text), _LONGEST_PIECE)
        self._unit: Unit = "characters" if pieces.split * 2 > len(text) else "lines"
        self.words = words_of("\n".join(pieces.texts))
        self._ends = [at for at, word in enumerate(self.words) if word == LINE_END]
        self.clear()

    def clear(self) -> None:
        """Nothing of it stands."""
        self.selection = Selection(self._pieces, self._unit, _UNLIMITED)
        self.names: list[str] = []
        """What is listed behind the lines."""
        self.used = 0.0
        """Tokens of what stands."""
        self.whole = False
        """Whether all of it stands."""

    def __len__(self) -> int:
        return len(self._pieces)

    def words_in(self, piece: int) -> list[str]:
        """The words of a piece."""
        return self.words[self._ends[piece - 1] + 1 if piece else 0 : self._ends[piece]]

    def weights_of_pieces(self, weights: Mapping[str, int]) -> Iterator[int]:
        """The sum of the weights of the words of each piece."""
        sums = list(accumulate(map(weights.__getitem__, self.words)))
        until = [sums[end] for end in self._ends]
        return map(sub, until, [0, *until])

    def cost(self, piece: int) -> float:
        """Tokens that it takes to let a piece stand."""
        cost = max(1, self.selection.cost(piece)) * self.rate
        return cost if self.used else cost + self._opening

    def take(self, piece: int, weights: dict[str, int]) -> float:
        """Let a piece stand: what it names is worth nothing more. Returns its cost."""
        cost = self.cost(piece)
        self.selection.take(piece)
        self.used += cost
        weights.update(dict.fromkeys(self.words_in(piece), 0))
        return cost

    def reads(self, handle: str | None) -> str:
        """The text as it stands, with its marker."""
        if self.whole:
            return self.text
        pieces, total = self._pieces, self._pieces.total_lines
        if self._unit == "characters":
            total = sum(map(pieces.characters, range(len(pieces))))
        kept = self.selection.count()
        parts = [marker(min(kept, total), total, self._unit, handle, self._notes)]
        if self.selection.kept():
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
    if not candidates or room <= 0:
        return
    around = [words_of(text) for text in standing]
    words = [word for some in around for word in some]
    for each in candidates:
        words += each.words
    weights = weights_of(words)
    for some in around:
        weights.update(dict.fromkeys(some, 0))
    weights[LINE_END] = 0
    for_names = room * _FOR_NAMES
    left = room - for_names
    if ends:
        left = _take_ends(candidates, weights, left)
    lines = _Lines(candidates, weights)
    left = for_names + lines.take(left)
    unused = left - sum(cost for _, _, cost in _names(candidates, weights))
    if unused > 0:  # so few names are left that more lines can stand
        left += lines.take(unused) - unused
    left = _list_names(candidates, weights, left)
    for each in reversed(candidates):
        rest = len(each.text) * each.rate - each.used
        if rest <= left:
            each.whole = True
            left -= max(0.0, rest)


def _take_ends(candidates: Sequence[Candidate], weights: dict[str, int], room: float) -> float:
    """Returns the room that is left."""
    for candidate in reversed(candidates):
        for piece in range(len(candidate))[:: max(1, len(candidate) - 1)]:
            if piece not in candidate.selection and candidate.cost(piece) <= room:
                room -= candidate.take(piece, weights)
    return room


class _Lines:
    """The lines that do not stand, the most telling for their length first."""

    def __init__(self, candidates: Sequence[Candidate], weights: dict[str, int]) -> None:
        self._candidates = candidates
        self._weights = weights
        # At first what each can be worth for a token at most: its words may stand elsewhere when
        # it is its turn.
        self._heap: list[tuple[float, int, int]] = [
            (-bound / candidate.cost(piece), -number, piece)
            for number, candidate in enumerate(candidates)
            for piece, bound in enumerate(candidate.weights_of_pieces(weights))
            if bound
        ]
        heapify(self._heap)

    def take(self, room: float) -> float:
        """Returns the room that is left."""
        heap, missed = self._heap, 0
        while heap and missed < _MISSES:
            _, place, piece = heappop(heap)
            candidate = self._candidates[-place]
            if piece in candidate.selection or not (worth := self._worth(candidate, piece)):
                continue
            cost = candidate.cost(piece)
            entry = (-worth / cost, place, piece)
            if heap and entry > heap[0]:
                heappush(heap, entry)
            elif cost > room:
                missed += 1
            else:
                room -= candidate.take(piece, self._weights)
                for near in (piece - 1, piece + 1):  # cheaper now: it needs no gap of its own
                    if 0 <= near < len(candidate) and near not in candidate.selection:
                        density = self._worth(candidate, near) / candidate.cost(near)
                        heappush(heap, (-density, place, near))
        return room

    def _worth(self, candidate: Candidate, piece: int) -> int:
        return sum(map(self._weights.__getitem__, set(candidate.words_in(piece))))


def _list_names(candidates: Sequence[Candidate], weights: dict[str, int], room: float) -> float:
    """Returns the room that is left."""
    missed = 0
    for name, holder, cost in _names(candidates, weights):
        cost += 0 if holder.names else _LISTING * holder.rate
        if cost <= room:
            holder.names.append(name)
            holder.used += cost
            room -= cost
        elif (missed := missed + 1) > _MISSES:
            break
    return room


def _names(
    candidates: Sequence[Candidate], weights: dict[str, int]
) -> Iterator[tuple[str, Candidate, float]]:
    """The names that do not stand, those worth most first: with a text that holds it, and tokens."""
    holders: dict[str, Candidate] = {}  # of several texts that hold a word, the last one
    for candidate in candidates:
        holders.update(dict.fromkeys(candidate.words, candidate))
    for name in identifiers(weights):
        holder = holders.get(name)
        if holder is not None:  # a few stand with punctuation around them everywhere
            yield name, holder, (len(name) + len(", ")) * holder.rate
