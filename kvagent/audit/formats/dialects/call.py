"""What do a request and its answer hold, whatever API they were meant for?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvagent.audit.transcript import Reported

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request's body, in OpenAI's chat form."""

    messages: Sequence[Message]
    tools: Sequence[Message] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    """False where the server held some of the conversation, so that the body lacks it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, in OpenAI's chat form."""

    replies: Sequence[Message] = ()
    reported: Reported = field(default_factory=Reported)
    error: str | None = None
    time: Any = None
    """When it was made, as the server says it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API for chats."""

    name: str
    messages: str
    """The key under which a request has its messages."""
    asks: Callable[[Mapping[str, Any]], bool]
    """Whether a body is a request to it. Never raises."""
    asked: Callable[[Mapping[str, Any]], Asked]
    """What the request holds. Raises ``Broken``."""
    answers: Callable[[Mapping[str, Any]], bool]
    """Whether a body is an answer of it. Never raises."""
    answered: Callable[[Mapping[str, Any]], Answered]
    """What the answer holds; what cannot be read is left out."""
    joined: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any] | None]
    """The answer that a stream's events make together; None if they are none of it."""


def function(name: Any, arguments: Any, id: Any) -> dict[str, Any]:
    """A tool call."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name: Any, description: Any, parameters: Any, **more: Any) -> dict[str, Any]:
    """A tool's schema."""
    schema = {"name": name, "description": description, "parameters": parameters, **more}
    return {
        "type": "function",
        "function": {key: value for key, value in schema.items() if value is not None},
    }


def others(body: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """The keys of a body beside those that are read."""
    return {key: value for key, value in body.items() if key not in known}


def plain(parts: list[dict[str, Any]]) -> Any:
    """Content parts; of one that is a text, the text."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts or ""
