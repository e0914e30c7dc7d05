"""How do the messages of a conversation stand one behind the other, and where was it cut?

A line of blocks, as wide as they have tokens, over several lines if they are many. A break is a cut
at the place from which everything was prefilled again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kvagent.audit.figures import count, several
from kvagent.audit.session import Break, Row, Timeline

# Blocks of a line, lines, and blocks altogether: of more messages neighbours are one block.
_BLOCKS = 90
_LINES = 6
_MOST = 540
# Cuts that are so near to each other, as a share of a line, have one sign.
_NEAR = 0.006
# A letter of a label takes such a share of a line.
_LETTER = 0.0075
_NAMED_TURNS = 3

_LOOKS = {
    "assistant": "assistant",
    "developer": "head",
    "function": "tool",
    "system": "head",
    "tool": "tool",
    "tools": "head",
}


@dataclass(frozen=True, slots=True)
class Block:
    """A message, or several that are too small to be drawn apart."""

    x: float
    """Where on its line it begins, from 0 to 1."""
    width: float
    look: str
    title: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A place at which the prefix broke."""

    x: float
    label: str
    """Empty where another label stands in its way."""
    title: str


@dataclass(slots=True)
class Line:
    """A part of the conversation."""

    blocks: list[Block] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    begins: str = ""
    """What stands at its beginning."""


@dataclass(frozen=True, slots=True)
class _Piece:
    tokens: int
    role: str
    first: int
    """The first of its messages; below 0 for the tools."""
    last: int
    turn: int


def lines(timeline: Timeline, rows: Sequence[Row], exact: bool, most: int = _MOST) -> list[Line]:
    """The conversation as its last request has it, cut where any of its requests broke it.

    Args:
        timeline: its messages.
        rows: its requests.
        exact: whether the tokens are.
        most: blocks, about.
    """
    pieces = _pieces(timeline, rows, min(most, _MOST))
    total = sum(piece.tokens for piece in pieces)
    if not total:
        return []
    number = min(_LINES, -(-len(pieces) // _BLOCKS))
    drawn = [Line() for _ in range(number)]
    at, starts = 0.0, {}
    for piece in pieces:
        starts[piece.first] = at
        for line, block in _blocks(piece, at, total, number, exact):
            if not drawn[line].blocks:
                drawn[line].begins = _begin(piece)
            drawn[line].blocks.append(block)
        at += piece.tokens / total * number
    places = {number: start for number, start in starts.items() if number >= 0}
    for line, cut in _cuts(rows, pieces, places, number):
        drawn[line].cuts.append(cut)
    return drawn


def _pieces(timeline: Timeline, rows: Sequence[Row], most: int) -> list[_Piece]:
    messages = zip(timeline.roles, timeline.tokens, timeline.turns, strict=True)
    pieces = [
        _Piece(tokens, role, number, number, turn)
        for number, (role, tokens, turn) in enumerate(messages)
    ]
    system = sum(piece.tokens for piece in pieces if piece.role in ("system", "developer"))
    if rows and rows[-1].parts.head > system:
        pieces.insert(0, _Piece(rows[-1].parts.head - system, "tools", -1, -1, rows[-1].number))
    together = -(-len(pieces) // most)
    if together <= 1:
        return pieces
    return [_joined(pieces[at : at + together]) for at in range(0, len(pieces), together)]


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    largest = max(pieces, key=lambda piece: piece.tokens)
    tokens = sum(piece.tokens for piece in pieces)
    return _Piece(tokens, largest.role, pieces[0].first, pieces[-1].last, pieces[0].turn)


def _begin(piece: _Piece) -> str:
    return "tools" if piece.first < 0 else f"message {piece.first} · turn {piece.turn}"


def _blocks(
    piece: _Piece, at: float, total: int, number: int, exact: bool
) -> Iterator[tuple[int, Block]]:
    """The piece on its line, or on several."""
    end = at + piece.tokens / total * number
    tokens = f"{count(piece.tokens, exact)} tokens"
    if piece.first < 0:
        title = f"tools · {tokens}"
    elif piece.first == piece.last:
        title = f"message {piece.first} · {piece.role} · {tokens} · since turn {piece.turn}"
    else:
        title = f"messages {piece.first}–{piece.last} · mostly {piece.role} · {tokens}"
    look = _LOOKS.get(piece.role, "user")
    while True:
        line = min(int(at), number - 1)
        until = min(end, line + 1.0) if line < number - 1 else end
        yield line, Block(at - line, until - at, look, title)
        at = until
        if at >= end - 1e-9:
            return


def _cuts(
    rows: Sequence[Row], pieces: Sequence[_Piece], places: dict[int, float], number: int
) -> Iterator[tuple[int, Cut]]:
    found: dict[float, list[tuple[Row, Break]]] = {}
    for row in rows:
        for each in row.breaks:
            found.setdefault(_place(each, pieces, places, number), []).append((row, each))
    groups: list[tuple[float, list[tuple[Row, Break]]]] = []
    for at in sorted(found):
        if groups and int(groups[-1][0]) == int(at) and at - groups[-1][0] < _NEAR:
            groups[-1][1].extend(found[at])
        else:
            groups.append((at, list(found[at])))
    free, line_before = 0.0, -1
    for at, seen in groups:
        line = min(int(at), number - 1)
        free = free if line == line_before else 0.0
        line_before = line
        label = _label(seen)
        x = at - line
        # A label stands right of its cut, or left of it where the line ends.
        if x < free:
            label = ""
        else:
            free = x + _LETTER * (len(label) + 3)
        yield line, Cut(min(x, 1.0), label, _title(seen))


def _place(each: Break, pieces: Sequence[_Piece], places: dict[int, float], number: int) -> float:
    if each.where in ("options", "tools"):
        return 0.0
    if each.index in places:
        return places[each.index]
    # One of several messages in a block, or one that is not there any more.
    inside = [start for first, start in places.items() if first <= each.index]
    known = bool(pieces) and each.index <= pieces[-1].last
    return max(inside) if inside and known else float(number)


def _label(seen: Sequence[tuple[Row, Break]]) -> str:
    turns = sorted({row.number for row, _ in seen})
    if len(turns) > _NAMED_TURNS:
        return several(len(turns), "break")
    return ("turn " if len(turns) == 1 else "turns ") + ", ".join(map(str, turns))


def _title(seen: Sequence[tuple[Row, Break]]) -> str:
    told: dict[str, list[int]] = {}
    for row, each in seen:
        told.setdefault(f"{broken(each)}", []).append(row.number)
    parts = []
    for name, turns in told.items():
        more = "" if len(turns) <= _NAMED_TURNS else f" and {len(turns) - _NAMED_TURNS} more"
        parts.append(f"{name} (turn {', '.join(map(str, turns[:_NAMED_TURNS]))}{more})")
    return "cut by " + "; ".join(parts)


def broken(each: Break) -> str:
    """``message 3: message changed``."""
    cause = "the template" if each.cause == "template" else each.cause.replace("_", " ")
    if each.where == "options":
        return cause
    if each.where == "prompt":
        return f"message {each.index}: rendered otherwise by {cause}"
    return f"{'tool' if each.where == 'tools' else 'message'} {each.index}: {cause}"
