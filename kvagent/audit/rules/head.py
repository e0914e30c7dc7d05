"""Did the head of a prompt change, and what in it?"""

from __future__ import annotations

from collections.abc import Iterable

from kvagent.audit.rule import Contrast, Rule, Sighting, Spot
from kvagent.audit.turns import Turn

HEAD_EDITED = Rule(
    "KVA103",
    "head-edited",
    "error",
    "prefill",
    "The system prompt is not the one that was sent before.",
    "Everything behind the first changed character is prefilled again, and the head stands in front "
    "of all messages.",
    "Keep the system prompt as it was first sent and say what is new in the newest message.",
)

RULES = (HEAD_EDITED,)


class Head:
    """Looks at system messages and tools."""

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """What in the head differs from the request before."""
        for found in turn.differences:
            if found.cause == "system_changed":
                spot = Spot(
                    turn.place,
                    turn.conversation,
                    turn.number,
                    message=found.index,
                    field=found.field,
                    character=found.character,
                    tokens=turn.wasted_tokens,
                    contrast=Contrast(found.before, found.after, found.offset),
                )
                yield Sighting(HEAD_EDITED, found.index, spot, "The system prompt was changed.")

    def end(self) -> Iterable[Sighting]:
        """Nothing: each change was told when it came."""
        return ()
