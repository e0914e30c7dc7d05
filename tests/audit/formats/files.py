"""Transcripts as files, and what is read of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvagent.audit.formats import read
from kvagent.audit.transcript import Hashed, Item, Request, Unreadable

SYSTEM = {"role": "system", "content": "Be brief."}
USER = {"role": "user", "content": "Which files are there?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "a.py"}
ANSWER = {"role": "assistant", "content": "One: a.py."}
SESSION: list[dict[str, Any]] = [SYSTEM, USER, CALL, RESULT, ANSWER]
TOOL = {
    "type": "function",
    "function": {"name": "ls", "description": "Lists files.", "parameters": {"type": "object"}},
}


def write(folder: Path, *values: Any, indent: int | None = None, name: str = "file") -> Path:
    """A file with these values, one a line; with ``indent``, one value over many lines."""
    path = folder / name
    path.write_text("\n".join(json.dumps(value, indent=indent) for value in values) + "\n")
    return path


def items(folder: Path, *values: Any, format: str | None = None) -> list[Item]:
    return list(read(write(folder, *values), format))


def requests(folder: Path, *values: Any, format: str | None = None) -> list[Request]:
    """The requests of a file of which everything can be read."""
    found = items(folder, *values, format=format)
    assert not [each for each in found if isinstance(each, Unreadable)]
    return [each for each in found if isinstance(each, Request)]


def hashed(folder: Path, *values: Any) -> list[Hashed]:
    return [each for each in items(folder, *values) if isinstance(each, Hashed)]


def unreadable(found: Sequence[Item]) -> list[str]:
    """Why which part could not be read."""
    return [f"{each.place} {each.why}" for each in found if isinstance(each, Unreadable)]


def roles(request: Request) -> str:
    """The first letters of the roles of a prompt, as in "suat"."""
    return "".join(message["role"][0] for message in request.messages)
