"""Where in a request is what a rule speaks of?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvagent.audit.rule import Contrast, Spot
from kvagent.audit.turns import Turn
from kvagent.chat import calls_of

# Characters of a text that is shown by its beginning.
_SHOWN = 160


def spot_of(
    turn: Turn,
    message: int | None = None,
    *,
    tool: int | None = None,
    tokens: int = 0,
    field: str = "",
    character: int | None = None,
    contrast: Contrast | None = None,
    excerpt: str = "",
) -> Spot:
    """A place in a turn; of the excerpt the beginning is shown."""
    return Spot(
        turn.place,
        turn.conversation,
        turn.number,
        message=message,
        tool=tool,
        field=field,
        character=character,
        tokens=tokens,
        contrast=contrast,
        excerpt=excerpt[:_SHOWN],
    )


def tool_of(messages: Sequence[Mapping[str, Any]], number: int) -> str:
    """The name of the tool that gave a result; empty where the transcript does not say."""
    message = messages[number]
    if isinstance(name := message.get("name"), str):
        return name
    wanted = message.get("tool_call_id")
    for earlier in reversed(messages[:number]):
        for call in calls_of(earlier):
            function = call.get("function")
            if call.get("id") == wanted and isinstance(function, Mapping):
                return str(function.get("name") or "")
        if earlier.get("role") == "user":
            break
    return ""
