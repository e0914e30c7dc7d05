"""Does an assistant message come back as it was generated?

The server has cached the tokens that it generated. A framework that parsed the arguments and
dumped them anew, or made null of an empty text, would have them prefilled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvagent.fingerprint import same_render
from kvagent.stages.turn import Edit, Fresh, Turn

REASONING = ("reasoning", "reasoning_content")


def echo(turn: Turn) -> None:
    """Send the generated form of a reply that comes back with the same meaning."""
    if not turn.tail or not turn.past.replies:
        return
    fresh = turn.tail[0]
    for reply in turn.past.replies:
        if reply.meaning == fresh.meaning:
            _restore(turn, fresh, reply.message)
            return


def _restore(turn: Turn, fresh: Fresh, generated: Mapping[str, Any]) -> None:
    if same_render(fresh.incoming, generated):
        return
    message = dict(fresh.incoming)
    for key in ("content", "tool_calls", "function_call"):
        if key in generated:
            message[key] = generated[key]
        elif not message.get(key):
            message.pop(key, None)
    for key in REASONING:
        # Only an agent that sends reasoning back gets its generated form: whether adding it
        # keeps the prefix depends on the chat template.
        if message.get(key) and generated.get(key):
            message[key] = generated[key]
    fresh.message = message
    saved = max(turn.count_tokens(str(generated.get("content") or "")), 1)
    turn.edits.append(Edit("echo", "message_reserialised", fresh.index, saved_tokens=saved))
