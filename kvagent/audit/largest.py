"""Which tool results take most of the prompts?"""

from __future__ import annotations

from heapq import heappush, heappushpop

from kvagent.audit.rules.places import tool_of
from kvagent.audit.session import Result
from kvagent.audit.turns import Turn
from kvagent.chat import text_of

# Results that are named.
_ROOM = 100

_RESULTS = ("tool", "function")


class Largest:
    """Sees every turn and holds the largest results, each where it was sent first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Result]] = []
        self._count = 0

    def turn(self, turn: Turn) -> None:
        """See what is new in a turn."""
        known = turn.placed.snapshot.messages
        least = self._heap[0][0] if len(self._heap) == _ROOM else -1
        large = [
            number
            for number in turn.fresh
            if known[number].role in _RESULTS and turn.size_of(number) > least
        ]
        if not large:
            return
        messages, sent = turn.request.messages, _sent_behind(turn)
        for number in large:
            if known[number].gist in sent:
                continue
            result = Result(
                turn.place,
                turn.conversation,
                turn.number,
                number,
                tool_of(messages, number),
                turn.size_of(number),
                len(text_of(messages[number])),
            )
            self._count += 1
            # Of two that are alike the earlier one goes first.
            entry = (result.tokens, -self._count, result)
            (heappush if len(self._heap) < _ROOM else heappushpop)(self._heap, entry)

    def all(self) -> list[Result]:
        """The largest first."""
        return [result for _, _, result in sorted(self._heap, reverse=True)]


def _sent_behind(turn: Turn) -> set[bytes]:
    """What was sent before behind the place at which this request differs from the one before."""
    before, common = turn.placed.before, turn.placed.common
    return set() if before is None else {message.gist for message in before.messages[common:]}
