"""Which texts of a message may become shorter, and how does the message read with shorter ones?

Roles, ids of calls, names of tools and the keys of their arguments always stay, and parts that are
no text. So whatever becomes of the texts, calls and results still belong together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.chat import calls_of

Place = tuple[str | int, ...]
"""Where a text stands: the keys and indexes that lead to it from the message on; within a call's
arguments they go on behind ``"arguments"`` as if these were no JSON text but what it holds."""


def texts_at(message: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """The texts of the content."""
    content = message.get("content")
    if isinstance(content, str):
        yield ("content",), content
    elif isinstance(content, list):
        for index, part in enumerate(content):
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield ("content", index, "text"), part["text"]


def arguments_at(message: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """The texts inside of the arguments of the calls; none of arguments that are no JSON object."""
    for index, call in enumerate(calls_of(message)):
        arguments = _arguments(call)
        if arguments is not None:
            yield from _strings(arguments, ("tool_calls", index, "function", "arguments"))


def replaced(message: Mapping[str, Any], texts: Mapping[Place, str]) -> dict[str, Any]:
    """The message with other texts in these places, and all the rest as it is."""
    result = dict(message)
    for place, text in texts.items():
        if place[0] == "content":
            result["content"] = _with(result["content"], place[1:], text)
    inside = {place: text for place, text in texts.items() if place[0] == "tool_calls"}
    if inside:
        result["tool_calls"] = [
            _with_arguments(call, {p[4:]: text for p, text in inside.items() if p[1] == index})
            for index, call in enumerate(message["tool_calls"])
        ]
    return result


def _arguments(call: Mapping[str, Any]) -> dict[str, Any] | None:
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(arguments, str):
        return None
    try:  # not orjson, for which a long integer is a float
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _strings(value: Any, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, (*place, index))


def _with(value: Any, place: Place, text: str) -> Any:
    """A copy of a JSON value with a text in this place."""
    if not place:
        return text
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = _with(value[place[0]], place[1:], text)
    return copy


def _with_arguments(call: Mapping[str, Any], texts: Mapping[Place, str]) -> Mapping[str, Any]:
    if not texts:
        return call
    arguments: Any = _arguments(call)
    for place, text in texts.items():
        arguments = _with(arguments, place, text)
    dumped = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return {**call, "function": {**call["function"], "arguments": dumped}}
