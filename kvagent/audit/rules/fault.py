"""What of a prompt that was sent before is not what it was, before it is known what it cost?"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from kvagent.audit.difference import AROUND
from kvagent.audit.rule import Contrast, Rule, Sighting, Spot
from kvagent.audit.turns import Turn
from kvagent.prefixcache.seen import common_prefix

# Characters of a text that is shown by its beginning.
_SHOWN = 160

# Where a message begins is exact to so many tokens.
_EDGE = 8


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in one turn; those of a turn stand in the order of the prompt."""

    rule: Rule
    key: Hashable
    """Faults of one conversation with one rule and key are one finding."""
    said: str
    message: int | None = None
    tool: int | None = None
    field: str = ""
    character: int | None = None
    contrast: Contrast | None = None
    excerpt: str = ""
    fix: str = ""
    example: str = ""
    count: int = 1
    """How many of the kind there are in this turn, of which this one is told."""
    only_alone: bool = False
    """Whether it is one only if the prompt first differs here: else nobody could tell that it does
    at all, for servers are given the same text."""

    def seen(self, turn: Turn, tokens: int, behind: str) -> Sighting:
        """The fault with its cost, and the code of the one in front of it."""
        spot = Spot(
            turn.place,
            turn.conversation,
            turn.number,
            self.message,
            self.tool,
            self.field,
            self.character,
            tokens,
            self.contrast,
            self.excerpt[:_SHOWN],
            behind,
        )
        return Sighting(
            self.rule, self.key, spot, self.said, self.fix, self.example, count=self.count
        )


def contrast(before: str, after: str, one: int, other: int) -> Contrast:
    """Two texts around a place in each, the place at the same distance from both beginnings.

    No more of them than the lines that differ.
    """
    in_line = min(one - before.rfind("\n", 0, one) - 1, other - after.rfind("\n", 0, other) - 1)
    left = min(AROUND, in_line)
    return Contrast(_line(before, one, left), _line(after, other, left), left)


def _line(text: str, at: int, left: int) -> str:
    """The line of a place, from so many characters in front of it; of several, the first."""
    begin = at
    while text.startswith("\n", begin):
        begin += 1
    end = text.find("\n", begin)
    return text[at - left : min(at + AROUND, len(text) if end < 0 else max(end, at + 1))]


def first_contrast(before: str, after: str) -> tuple[int, Contrast]:
    """The first character in which they differ, and the texts around it."""
    at = common_prefix(before, after)
    return at, contrast(before, after, at, at)


def lost(turn: Turn) -> int:
    """Tokens of what was sent before that must be prefilled again, but for what is no more than the
    error of where messages begin."""
    if turn.exact and turn.wasted_tokens <= _EDGE:
        return 0
    return turn.wasted_tokens


def is_unseen(turn: Turn, message: int) -> bool:
    """Whether it is known that the prompt does not show what became of a message.

    Servers write some things in a form of their own, arguments for one; with the model's own tokens
    one sees that the cache reaches over it.
    """
    if not turn.exact:
        return False
    return not lost(turn) or turn.reusable_tokens >= turn.starts[message + 1]


def is_seen(turn: Turn, message: int) -> bool:
    """Whether it is known that the prompt first differs in a message."""
    starts, reached = turn.starts, turn.reusable_tokens
    return turn.exact and starts[message] - _EDGE <= reached < starts[message + 1] - _EDGE
