"""Which tool results does a later one stand for?

The same text once more; the same call made again, whose answer is now another; a file that was read
again as a whole, or written anew. What an edit changed a line of is still true in all the others.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvagent.chat import calls_of, text_of

REPEAT, SUPERSEDED = "repeat", "superseded"

_PATHS = ("file_path", "path", "filepath", "filename", "file", "notebook_path", "target_file")
_CONTENTS = ("content", "contents", "file_text", "new_content")


@dataclass(frozen=True, slots=True)
class Answered:
    """A tool result's call."""

    tool: str
    arguments: str
    path: str | None
    """The file that it names."""
    whole: bool
    """Whether it names nothing but the file, so that a read gives all of it."""


def answered(messages: Sequence[Mapping[str, Any]]) -> dict[int, Answered]:
    """For the position of each tool result, the call that it answers."""
    calls: dict[str, Answered] = {}
    found: dict[int, Answered] = {}
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            call = calls.get(str(message.get("tool_call_id")))
            if call is not None:
                found[position] = call
        else:
            for call_made in calls_of(message):
                calls[str(call_made.get("id"))] = _answered(call_made)
    return found


def superseded(
    messages: Sequence[Mapping[str, Any]],
    answers: Mapping[int, Answered],
    pointing: Collection[int] = (),
) -> dict[int, str]:
    """Of the results that a later one stands for, the positions and why.

    The results at ``pointing`` stand for none: they only say that they stand above.
    """
    found: dict[int, str] = {}
    texts: set[str] = set()
    calls: set[tuple[str, str]] = set()
    read: set[tuple[str, str]] = set()  # as a whole, by a tool
    written: set[str] = set()
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message["role"] != "tool":
            continue
        text = text_of(message)
        call = answers.get(position)
        if text in texts:
            found[position] = REPEAT
        elif call is not None and (
            (call.tool, call.arguments) in calls
            or (call.path is not None and ((call.tool, call.path) in read or call.path in written))
        ):
            found[position] = SUPERSEDED
        if position in pointing:
            continue
        texts.add(text)
        if call is not None:
            calls.add((call.tool, call.arguments))
            if call.path is not None and call.whole:
                read.add((call.tool, call.path))
            if call.path is not None and _writes(call):
                written.add(call.path)
    return found


def _answered(call: Mapping[str, Any]) -> Answered:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    tool, text = str(function.get("name")), str(function.get("arguments") or "")
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return Answered(tool, text, None, whole=False)
    if not isinstance(arguments, dict):
        return Answered(tool, text, None, whole=False)
    path = next((arguments[key] for key in _PATHS if isinstance(arguments.get(key), str)), None)
    return Answered(tool, json.dumps(arguments, sort_keys=True), path, whole=len(arguments) == 1)


def _writes(call: Answered) -> bool:
    arguments = json.loads(call.arguments)
    return any(isinstance(arguments.get(key), str) for key in _CONTENTS)
