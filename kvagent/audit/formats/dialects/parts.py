"""What are messages made of parts in OpenAI's chat form?

As OpenTelemetry's conventions for GenAI have them, ``{"role": ..., "parts": [{"type": ...}]}``, and
Vercel's AI SDK, with the parts as content. A result of a tool is a part there, in a message of the
tool or the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.dialects.call import function, plain
from kvagent.audit.formats.fields import first, items, objects, shown
from kvagent.audit.formats.json_text import Broken, dumped

_RESULTS = ("tool_call_response", "tool_result", "tool-result")
_CALLS = ("tool_call", "tool-call")
_ROLES = {"model": "assistant", "ai": "assistant", "human": "user"}


def parts_of(message: Mapping[str, Any]) -> list[Any] | None:
    """The parts of a message; None if it has none."""
    if isinstance(message.get("parts"), list):
        return items(message["parts"])
    content = message.get("content")
    if any(part.get("type") in ("tool-call", "tool-result") for part in objects(content)):
        return items(content)
    return None


def chat(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages that one message with parts is. Raises ``Broken``."""
    role = message.get("role")
    if not isinstance(role, str):
        raise Broken("has a message without a role")
    role = _ROLES.get(role, role)
    rest: list[dict[str, Any]] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in objects(parts_of(message)):
        kind = part.get("type")
        if kind in _RESULTS:
            answer = first(part, ("response", "result", "output", "content"))
            yield {
                "role": "tool",
                "tool_call_id": first(part, ("id", "toolCallId")),
                "content": text_of(answer),
            }
        elif kind in _CALLS:
            arguments = first(part, ("arguments", "args", "input"))
            calls.append(
                function(
                    first(part, ("name", "toolName")),
                    arguments if isinstance(arguments, str) else dumped(arguments or {}),
                    first(part, ("id", "toolCallId")),
                )
            )
        elif kind in ("reasoning", "thinking"):
            thoughts.append(shown(part))
        else:
            rest.append({"type": "text", "text": shown(part)})
    if rest or calls or thoughts:
        made: dict[str, Any] = {"role": role, "content": plain(rest) if rest else None}
        if any(thoughts):
            made["reasoning_content"] = "\n".join(thoughts)
        if calls:
            made["tool_calls"] = calls
        yield made


def text_of(answer: Any) -> str:
    """A tool's result as the text that it is to the model. Raises ``Broken``."""
    if isinstance(answer, dict) and "value" in answer:
        answer = answer["value"]
    if isinstance(answer, str):
        return answer
    return "" if answer is None else shown(answer) or dumped(answer)
