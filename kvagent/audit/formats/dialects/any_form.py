"""What are these messages in OpenAI's chat form, whichever way they are written?

Traces hold what a framework gave them: messages of OpenAI, Anthropic, LangChain or OpenTelemetry,
items of the Responses API, JSON as text, one message or a bare question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvagent.audit.formats.dialects import anthropic, langchain, parts, responses
from kvagent.audit.formats.dialects.chat import checked
from kvagent.audit.formats.fields import first, items, mapping, objects, shown
from kvagent.audit.formats.json_text import Broken, parsed_text

_HOLDERS = ("messages", "input", "input_messages", "prompt")
_TOOLS = ("tools", "functions", "tool_definitions")
_DEEPEST = 4


@dataclass(slots=True)
class Told:
    """Messages and the tools that stood beside or among them."""

    messages: list[Mapping[str, Any]]
    tools: list[Mapping[str, Any]] = field(default_factory=list)


def told(value: Any, depth: int = 0) -> Told:
    """What a value holds. Raises ``Broken`` where these are no messages."""
    value = unwrapped(value)
    if depth > _DEEPEST:
        raise Broken("is nested too deeply")
    if isinstance(value, str):
        return Told([{"role": "user", "content": value}] if value else [])
    if isinstance(value, dict):
        return _object(value, depth)
    if not isinstance(value, list):
        raise Broken("has no messages")
    if len(value) == 1 and isinstance(value[0], list):
        return told(value[0], depth + 1)
    if responses.speaks(value):
        return Told(list(responses.chat(value)))
    return _list(value)


def _object(value: dict[str, Any], depth: int) -> Told:
    if "role" in value or langchain.fields(value) is not None:
        return _list([value])
    inner = first(value, _HOLDERS)
    if inner is None:
        raise Broken("has no messages")
    found = told(inner, depth + 1)
    system = shown(first(value, ("system", "instructions")))
    if system:
        found.messages.insert(0, {"role": "system", "content": system})
    found.tools.extend(tools_of(first(value, _TOOLS)))
    return found


def _list(value: list[Any]) -> Told:
    """Messages, each in the form that it has."""
    found = Told([])
    for each in value:
        each = unwrapped(each)
        lang = langchain.fields(each)
        if lang is not None:
            found.messages.append(langchain.chat(lang))
        elif isinstance(each, str):
            found.messages.append({"role": "user", "content": each})
        elif not isinstance(each, dict) or not isinstance(each.get("role"), str):
            raise Broken("has a message without a role")
        elif parts.parts_of(each) is not None:
            found.messages.extend(parts.chat(each))
        elif each["role"] == "tool" and _is_tool(unwrapped(each.get("content"))):
            # Langfuse shows the tools of LangChain as messages behind the others.
            found.tools.append(unwrapped(each["content"]))
        elif anthropic.speaks([each]):
            found.messages.extend(anthropic.chat([each]))
        else:
            found.messages.append(_with_calls(each))
    return Told(checked(found.messages), found.tools)


def _is_tool(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("function"), dict)


def _with_calls(message: dict[str, Any]) -> dict[str, Any]:
    """The message, with calls that LangChain keeps beside it among its own."""
    calls = objects(mapping(message.get("additional_kwargs")).get("tool_calls"))
    if not calls or message.get("tool_calls"):
        return message
    rest = {key: value for key, value in message.items() if key != "additional_kwargs"}
    return {**rest, "tool_calls": calls}


def tools_of(value: Any) -> list[dict[str, Any]]:
    """Tools in OpenAI's form; each may be JSON as text, or bare."""
    value = unwrapped(value)
    found: list[dict[str, Any]] = []
    for each in items(value):
        each = unwrapped(each)
        if not isinstance(each, dict):
            continue
        if isinstance(each.get("function"), dict):
            found.append(each)
        elif isinstance(each.get("name"), str):
            schema = {
                "name": each["name"],
                "description": each.get("description"),
                "parameters": first(
                    each,
                    ("parameters", "input_schema", "inputSchema", "parameters_json_schema"),
                ),
            }
            kept = {key: unwrapped(part) for key, part in schema.items() if part is not None}
            found.append({"type": "function", "function": kept})
    return found


def unwrapped(value: Any) -> Any:
    """The value; of JSON as text, what it says."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return parsed_text(value)
        except Broken:
            return value
    return value
