"""How does a model, or an agent, get back what was shortened?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from kvagent.chat import ChatReply, calls_of
from kvagent.shorten import shorten

RECALL = "kvagent_recall"

TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": RECALL,
        "description": (
            "Gives back a text of this conversation that was shortened or cleared, as it was. "
            'A shortened text says so at its head: kvagent_recall("r0123456789ab"). '
            "Ask for the lines you need; line numbers are those of the whole text."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The handle, such as r0123456789ab."},
                "lines": {"type": "string", "description": "First and last line, such as 120-240."},
                "query": {"type": "string", "description": "Only lines that hold this text."},
            },
            "required": ["handle"],
        },
    },
}
"""The tool's definition, which stands in the head from the first turn on."""

_LINES = re.compile(r"\s*(\d+)\s*(?:(?:-|–|:|,|to)\s*(\d+)\s*)?")
_HANDLE = re.compile(r"r[0-9a-f]{12}")
_NO_ROOM = "there is no room for so much now; ask for fewer lines, or for a query"
# Fewer characters than this tell nothing.
_LEAST = 400
# What the line takes that says how to go on.
_NOTE = 100


class LostHandle(KeyError):
    """No original is kept under a handle (any more)."""

    def __str__(self) -> str:
        return str(self.args[0])


def span_of(lines: str | tuple[int, int] | int) -> tuple[int, int]:
    """First and last line, counted from 1; ``ValueError`` for what is none."""
    if isinstance(lines, int):
        first = last = lines
    elif isinstance(lines, str):
        match = _LINES.fullmatch(lines)
        if match is None:
            raise ValueError(f"lines={lines!r}: write the first and the last line, as in 120-240")
        first, last = int(match[1]), int(match[2] or match[1])
    else:
        first, last = lines
    if first < 1 or last < first:
        raise ValueError(
            f"lines={lines!r}: lines count from 1, and the last is not before the first"
        )
    return first, last


def part_of(
    text: str, lines: str | tuple[int, int] | int | None = None, query: str | None = None
) -> str:
    """All of a text, or its lines as they are; with ``query`` those that hold it, numbered."""
    if lines is None and query is None:
        return text
    every = text.split("\n")
    if every[-1] == "":
        every.pop()
    first, last = span_of(lines) if lines is not None else (1, len(every))
    if lines is not None and first > len(every):
        raise ValueError(f"lines {first}-{last}: the text has {len(every)} lines")
    chosen = every[first - 1 : last]
    if query is None:
        feed = "\n" if last < len(every) or text.endswith("\n") else ""
        return "\n".join(chosen) + feed
    wanted = query.casefold()
    return "\n".join(
        f"{number}:{line}" for number, line in enumerate(chosen, first) if wanted in line.casefold()
    )


def is_recalled(reply: ChatReply) -> bool:
    """Whether the model asks kvagent for a text."""
    return any(asked_of(message) for message in reply.messages)


def exchange(
    message: Mapping[str, Any], recall: Callable[..., str], room: Callable[[str], int]
) -> list[Mapping[str, Any]]:
    """The model's question to kvagent, and what it is told.

    Other calls made beside it are left out: whoever asks for a text has not read it, and will
    call again what is still wanted then. ``room`` says how many characters of a text can be told.
    """
    asked = asked_of(message)
    told = [_result(call, _answer(call, recall, room)) for call in asked]
    return [{**message, "tool_calls": asked}, *told]


def asked_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls of a message that are for kvagent."""
    return [call for call in calls_of(message) if _name(call) == RECALL]


def without_texts(messages: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The exchanges, with the last of them told that there is no room for what it asked for."""
    last = max(at for at, message in enumerate(messages) if message["role"] != "tool")
    refused = ({**message, "content": f"{RECALL}: {_NO_ROOM}"} for message in messages[last + 1 :])
    return (*messages[: last + 1], *refused)


def _result(call: Mapping[str, Any], content: str) -> Mapping[str, Any]:
    return {"role": "tool", "tool_call_id": call.get("id"), "content": content}


def _answer(call: Mapping[str, Any], recall: Callable[..., str], room: Callable[[str], int]) -> str:
    try:
        arguments = _arguments(call)
        part = {key: str(arguments[key]) for key in ("lines", "query") if arguments.get(key)}
        text = recall(_handle(arguments.get("handle")), **part)
        if not text:
            return f"{RECALL}: no line holds that" if part else f"{RECALL}: the text is empty"
        first = span_of(part["lines"])[0] if "lines" in part else 1
        return _as_far_as(room(text), text, None if "query" in part else first)
    except (LostHandle, ValueError) as error:
        return f"{RECALL}: {error}"


def _arguments(call: Mapping[str, Any]) -> Mapping[str, Any]:
    written = call["function"].get("arguments")
    try:
        arguments = orjson.loads(written) if isinstance(written, str) else written
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the arguments are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise ValueError('give the arguments as an object, such as {"handle": "r0123456789ab"}')
    return arguments


def _as_far_as(room: int, text: str, first: int | None) -> str:
    """A text as far as there is room, with what to ask for next; ``first`` is its first line.

    None where it is a list of lines found.
    """
    if len(text) <= room:
        return text
    if room < _LEAST:
        raise ValueError(_NO_ROOM)
    lines = text.removesuffix("\n").split("\n")
    room -= _NOTE
    shown = 0
    while shown < len(lines) and len(lines[shown]) < room:
        room -= len(lines[shown]) + 1
        shown += 1
    if not shown:  # there are lines longer than all the room
        return shorten(text, room).text
    if first is None:
        note = f"the first {shown} of {len(lines)} lines found; narrow the lines or the query"
    else:
        after, last = first + shown, first + len(lines) - 1
        note = f'lines {first}-{after - 1}; then ask for lines="{after}-{last}"'
    return f"[kvagent: {note}]\n" + "\n".join(lines[:shown])


def _handle(written: object) -> str:
    """The handle in what a model wrote, such as ``kvagent_recall("r0123456789ab")``."""
    match = _HANDLE.search(str(written))
    if match is None:
        raise ValueError('give the handle as it stands in the text, such as "r0123456789ab"')
    return match[0]


def _name(call: Mapping[str, Any]) -> object:
    function = call.get("function")
    return function.get("name") if isinstance(function, dict) else None


def visible(messages: Sequence[Mapping[str, Any]], shown: str) -> list[Mapping[str, Any]]:
    """The replies as the caller has them, where ``shown`` was streamed to it before."""
    if not shown:
        return list(messages)
    return [{**message, "content": shown + (message.get("content") or "")} for message in messages]
