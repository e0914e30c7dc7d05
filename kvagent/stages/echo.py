"""Does an assistant message come back as it was generated?

The server has cached the tokens that it generated. A framework that parsed the arguments and
dumped them anew, or made null of an empty text, would have them prefilled again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvagent.chat import shown
from kvagent.events import Cause
from kvagent.fingerprint import same_render
from kvagent.prefixcache.seen import common_prefix
from kvagent.stages.turn import Edit, Fresh, Turn

REASONING = ("reasoning", "reasoning_content")


def echo(turn: Turn) -> None:
    """Send the generated form of a reply that comes back with the same meaning."""
    if not turn.tail or not turn.past.replies:
        return
    fresh = turn.tail[0]
    for reply in turn.past.replies:
        if reply.meaning == fresh.meaning:
            fresh.before = reply.before
            _restore(turn, fresh, reply.message)
            return


def _restore(turn: Turn, fresh: Fresh, generated: Mapping[str, Any]) -> None:
    dropped = _dropped_reasoning(fresh.incoming, generated)
    resend = bool(dropped) and turn.policy.mode == "full" and turn.resends_reasoning()
    if not resend and same_render(fresh.incoming, generated):
        return
    message = dict(fresh.incoming)
    for key in ("content", "tool_calls", "function_call"):
        if key in generated:
            message[key] = generated[key]
        elif not message.get(key):
            message.pop(key, None)
    for key in REASONING:
        # Only an agent that sends reasoning back gets its generated form.
        if message.get(key) and generated.get(key):
            message[key] = generated[key]
    if resend:
        message |= dropped
    fresh.message = message
    came = shown(fresh.incoming)
    # Reasoning stands in front of the rest.
    same = 0 if resend else common_prefix(came, shown(message))
    saved = max(turn.count_tokens(came[same:]), 1)
    cause: Cause = "reasoning_dropped" if resend else "message_reserialised"
    turn.edits.append(Edit("echo", cause, fresh.index, saved_tokens=saved))


def _dropped_reasoning(
    incoming: Mapping[str, Any], generated: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The reasoning that was generated and does not come back under any name."""
    if any(incoming.get(key) for key in REASONING):
        return {}
    return {key: generated[key] for key in REASONING if generated.get(key)}
