"""What is a message of LangChain in OpenAI's chat form?

It is written down in three ways: as ``{"type": "human", "data": ...}``, as the constructor call
that ``dumpd`` makes of it, and with its fields side by side. A call's arguments are objects there;
LangChain sends them as JSON with blanks, and so they stand here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvagent.audit.formats.dialects.call import function
from kvagent.audit.formats.fields import first, items, mapping, objects, string, tokens
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.transcript import Reported

_ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "tool",
}
_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "chat",
}


def fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a message, with its kind as ``type``; None if it is none of LangChain's."""
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if value.get("lc") is not None and isinstance(value.get("kwargs"), dict):
        name = string(next(reversed(items(value.get("id"))), None)) or ""
        kind = _CLASSES.get(name.removesuffix("Chunk"))
        return None if kind is None else {**value["kwargs"], "type": kind}
    if not isinstance(kind, str) or "role" in value:
        return None
    if isinstance(value.get("data"), dict):
        inner = value["data"]
        return {**inner, "type": _kind(kind)} if "content" in inner and _kind(kind) else None
    if "content" in value and _kind(kind):
        return {**value, "type": _kind(kind)}
    return None


def _kind(kind: str) -> str | None:
    kind = _CLASSES.get(kind.removesuffix("Chunk"), kind)
    return kind if kind in _ROLES or kind == "chat" else None


def chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message from its fields. Raises ``Broken``."""
    kind = message["type"]
    role = _ROLES.get(kind) or string(message.get("role")) or "user"
    made: dict[str, Any] = {"role": role, "content": _content(role, message.get("content"))}
    if role == "tool":
        made["tool_call_id"] = message.get("tool_call_id") or message.get("name")
    calls = _calls(message)
    if calls:
        made["tool_calls"] = calls
    if isinstance(message.get("id"), str):
        made["id"] = message["id"]
    return made


def _content(role: str, content: Any) -> Any:
    """Content as it is, but for the blocks that repeat the calls."""
    if role != "assistant" or not isinstance(content, list):
        return content
    return [
        block
        for block in content
        if not isinstance(block, dict) or block.get("type") not in ("tool_use", "function_call")
    ]


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    own = objects(message.get("tool_calls")) + objects(message.get("invalid_tool_calls"))
    if not own:
        return objects(mapping(message.get("additional_kwargs")).get("tool_calls"))
    return [
        call
        if isinstance(call.get("function"), dict)
        else function(call.get("name"), _arguments(call.get("args")), call.get("id"))
        for call in own
    ]


def _arguments(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(arguments or {}, ensure_ascii=False)
    except RecursionError:
        raise Broken("has arguments that are nested too deeply") from None


def reported(message: Mapping[str, Any]) -> Reported:
    """The counts that a message of the model carries."""
    usage = mapping(message.get("usage_metadata"))
    details = mapping(usage.get("input_token_details"))
    if usage:
        return Reported(
            tokens(usage.get("input_tokens")),
            tokens(details.get("cache_read")),
            tokens(usage.get("output_tokens")),
            tokens(details.get("cache_creation")),
        )
    metadata = mapping(message.get("response_metadata"))
    older = mapping(first(metadata, ("token_usage", "usage")))
    inner = mapping(older.get("prompt_tokens_details"))
    return Reported(
        tokens(older.get("prompt_tokens")),
        tokens(inner.get("cached_tokens")),
        tokens(older.get("completion_tokens")),
    )
