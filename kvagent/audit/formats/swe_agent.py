"""Is this a trajectory of SWE-agent, and which requests did it send?

One document with the history of the conversation. Later versions have with each step the messages
that were sent, with what was elided from them; without these the history is unrolled as it is. The
tools are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import chat
from kvagent.audit.formats.fields import items, mapping, objects, string
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import completeness, unrolled
from kvagent.audit.transcript import Item, Place, Request, Unreadable

_SENT = ("role", "content", "tool_calls", "tool_call_id", "name", "thinking_blocks")


def _messages(history: Any) -> list[Mapping[str, Any]]:
    """The messages of a history, with what goes to the model only. Raises ``Broken``."""
    made: list[Mapping[str, Any]] = []
    for message in chat.checked(history):
        sent = {key: message[key] for key in _SENT if message.get(key) is not None}
        ids = items(message.get("tool_call_ids"))
        if message["role"] == "tool" and ids:
            sent.setdefault("tool_call_id", ids[0])
        made.append(sent)
    return made


def _is_trajectory(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("trajectory"), list)
        and ("history" in value or "environment" in value)
    )


def _claims(contents: Contents) -> bool:
    return any(map(_is_trajectory, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        steps = items(value.get("trajectory"))
        if any(items(step.get("query")) for step in objects(steps)):
            yield from _steps(place, steps)
            continue
        where = Place(place.file, place.line, f"{place.path}.history")
        try:
            messages = _messages(value.get("history"))
        except Broken as error:
            yield Unreadable(where, str(error))
            continue
        yield from _by_agent(where, messages, objects(value.get("history")))


def _by_agent(
    place: Place, messages: list[Mapping[str, Any]], history: list[dict[str, Any]]
) -> Iterator[Item]:
    """An agent under the first one has a conversation of its own."""
    agents = [string(message.get("agent")) for message in history]
    for agent in dict.fromkeys(agents):
        own = [each for each, by in zip(messages, agents, strict=True) if by == agent]
        yield from unrolled(own, place, conversation=agent)


def _steps(place: Place, steps: list[Any]) -> Iterator[Item]:
    for at, step in enumerate(steps):
        step = mapping(step)
        where = Place(place.file, place.line, f"{place.path}.trajectory[{at}].query")
        if not items(step.get("query")):
            continue
        try:
            messages = _messages(step["query"])
        except Broken as error:
            yield Unreadable(where, str(error))
            continue
        reply: dict[str, Any] = {
            "role": "assistant",
            "content": string(step.get("response")) or string(step.get("thought")),
        }
        calls = objects(step.get("tool_calls"))
        if calls:
            reply["tool_calls"] = calls
        yield Request(
            place=where,
            messages=messages,
            replies=(reply,),
            complete=completeness(system=True, tools=False),
        )


FORMAT = Format("swe_agent", "a trajectory of SWE-agent", _claims, _read)
