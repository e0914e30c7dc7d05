"""What do real agents do to the messages that they send again?

Each habit here was seen in the wild and costs the server's prefix cache: a clock at the head of the system prompt,
tools and their schemas in another order, arguments and messages dumped anew, null for an empty text, a reminder that
moves along. None of them changes what the conversation means.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

REMINDER = "<system-reminder>\nThe repository is read-only. Answer briefly.\n</system-reminder>"


class Clock:
    """A clock that is read once a turn and has then moved on by some seconds: the same in each run."""

    def __init__(
        self,
        start: datetime = datetime(2026, 3, 2, 9, tzinfo=UTC),
        tick: timedelta = timedelta(seconds=7),
    ) -> None:
        self._now = start
        self._tick = tick

    def __call__(self) -> datetime:
        self._now += self._tick
        return self._now


def with_habits(
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    now: datetime,
    rng: random.Random,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The same conversation and tools as an agent with every habit sends them this turn.

    The first message is the system prompt; what was handed in is not changed.
    """
    sent = [_dumped_anew(message, rng) for message in messages]
    sent[0]["content"] = f"Current time: {now:%Y-%m-%d %H:%M:%S}\n{sent[0]['content']}"
    newest = max(i for i, message in enumerate(sent) if message["role"] in ("user", "tool"))
    sent[newest]["content"] += f"\n\n{REMINDER}"
    return sent, [_shuffled(tool, rng) for tool in rng.sample(tools, len(tools))]


def _dumped_anew(message: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    message = json.loads(json.dumps(message))
    for call in message.get("tool_calls", ()):
        call["function"]["arguments"] = _arguments(call["function"]["arguments"], rng)
    if "tool_calls" in message and not message["content"]:
        message["content"] = rng.choice(["", None])
    if message["role"] == "assistant" and rng.random() < 0.5:
        message["refusal"] = None
    return {key: message[key] for key in rng.sample(list(message), len(message))}


def _arguments(text: str, rng: random.Random) -> str:
    separators = rng.choice([(",", ":"), (", ", ": "), (" , ", " : ")])
    return json.dumps(_shuffled(json.loads(text), rng), separators=separators)


def _shuffled(value: Any, rng: random.Random) -> Any:
    """The same JSON with the keys of every object in another order."""
    if isinstance(value, dict):
        return {key: _shuffled(value[key], rng) for key in rng.sample(list(value), len(value))}
    if isinstance(value, list):
        return [_shuffled(item, rng) for item in value]
    return value
