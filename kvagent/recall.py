"""How does a model, or an agent, get back what was shortened?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from kvagent.chat import ChatReply, calls_of

RECALL = "kvagent_recall"

TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": RECALL,
        "description": (
            "Gives back a text of this conversation that was shortened or cleared, as it was. "
            'A shortened text names its handle at its head: recall("r0123456789ab"). '
            "Ask for the lines you need; line numbers are those of the whole text."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The handle, such as r0123456789ab."},
                "lines": {"type": "string", "description": "First and last line, such as 120-240."},
                "query": {"type": "string", "description": "Only lines that hold these words."},
            },
            "required": ["handle"],
        },
    },
}
"""The tool's definition, which stands in the head from the first turn on."""

_LINES = re.compile(r"\s*(\d+)\s*(?:(?:-|–|:|,|to)\s*(\d+)\s*)?")
_HANDLE = re.compile(r"r[0-9a-f]{12}")


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
    if first > len(every):
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
    return any(_name(call) == RECALL for message in reply.messages for call in calls_of(message))


def exchange(
    message: Mapping[str, Any], recall: Callable[..., str], fit: Callable[[str], str]
) -> list[Mapping[str, Any]]:
    """The model's question to kvagent, and what it is told.

    Other calls made beside it are left out: whoever asks for a text has not read it, and will
    call again what is still wanted then. ``fit`` shortens what is too long to be told whole.
    """
    asked = [call for call in calls_of(message) if _name(call) == RECALL]
    told = [
        {"role": "tool", "tool_call_id": call.get("id"), "content": _answer(call, recall, fit)}
        for call in asked
    ]
    return [{**message, "tool_calls": asked}, *told]


def _answer(call: Mapping[str, Any], recall: Callable[..., str], fit: Callable[[str], str]) -> str:
    try:
        arguments = orjson.loads(call["function"]["arguments"])
        part = {key: str(arguments[key]) for key in ("lines", "query") if arguments.get(key)}
        text = recall(_handle(arguments["handle"]), **part)
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, (LostHandle, ValueError)) else "handle is missing"
        return f"kvagent_recall: {reason}"
    return fit(text) or "kvagent_recall: no line holds that"


def _handle(written: object) -> str:
    """The handle in what a model wrote, such as ``recall("r0123456789ab")``."""
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
