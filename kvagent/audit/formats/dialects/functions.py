"""What are the functions of OpenAI's first tool API in today's terms?

``functions``, ``function_call`` and messages of the role ``function`` became ``tools``,
``tool_calls`` and ``tool``. They had no ids: a call gets one from its place in the list, so that it
is the same in every later request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvagent.audit.formats.dialects.call import function
from kvagent.audit.formats.fields import mapping, objects

MADE = "call-of-message-"
"""How the ids begin that are made here: no transcript has them."""

ROLE = "function"
CALL = "function_call"


def modern_tools(functions: Any) -> list[dict[str, Any]]:
    """The tools that ``functions`` declares."""
    return [{"type": "function", "function": schema} for schema in objects(functions)]


def modern(messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Messages without functions; those that have none stay what they are."""
    made: list[Mapping[str, Any]] = []
    called = ""
    for at, message in enumerate(messages):
        call = mapping(message.get(CALL))
        if call and not message.get("tool_calls"):
            called = f"{MADE}{at}"
            message = {
                **{key: value for key, value in message.items() if key not in (CALL, "tool_calls")},
                "tool_calls": [function(call.get("name"), call.get("arguments"), called)],
            }
        elif message.get("role") == ROLE:
            message = {"role": "tool", "tool_call_id": called or f"{MADE}{at}", **_rest(message)}
        made.append(message)
    return made


def _rest(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "role"}
