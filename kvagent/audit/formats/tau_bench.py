"""Are these trajectories of τ-bench, and which requests did its agent send?

A list of runs, each with the messages of its session; the tools are not in the file. In its
successor, τ², the system prompt is not in it either, and the user has tools, too: what is said
between these two the agent does not see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import chat
from kvagent.audit.formats.dialects.call import function
from kvagent.audit.formats.fields import items, name, objects
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken, dumped
from kvagent.audit.formats.unroll import unrolled
from kvagent.audit.transcript import Item, Place, Unreadable


def _is_run(value: Any) -> bool:
    return isinstance(value, dict) and "task_id" in value and _key(value) is not None


def _key(run: dict[str, Any]) -> str | None:
    """Where a run has its messages: τ-bench and its successor differ."""
    return next((key for key in ("traj", "messages") if isinstance(run.get(key), list)), None)


def _runs(value: Any) -> tuple[str, list[Any]]:
    if isinstance(value, dict) and isinstance(value.get("simulations"), list):
        return ".simulations", items(value["simulations"])
    return ("", value) if isinstance(value, list) else ("", [])


def _claims(contents: Contents) -> bool:
    return any(
        _is_run(value) or any(map(_is_run, _runs(value)[1][:3])) for value in contents.values
    )


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        if _is_run(value):
            yield from _run(place, value)
            continue
        path, runs = _runs(value)
        if not runs:
            yield Unreadable(place, "has no runs")
        for at, run in enumerate(runs):
            where = Place(place.file, place.line, f"{place.path}{path}[{at}]")
            if _is_run(run):
                yield from _run(where, run)
            else:
                yield Unreadable(where, "is no run of a task")


def _run(place: Place, run: dict[str, Any]) -> Iterator[Item]:
    key = _key(run) or ""
    where = Place(place.file, place.line, f"{place.path}.{key}")
    ids = [name(run.get(part)) for part in ("task_id", "trial")]
    conversation = "/".join(filter(None, ids)) or None
    try:
        messages = chat.checked(run[key])
        counts = {}
        if any("turn_idx" in message for message in messages):
            told = [message for message in messages if _is_told(message)]
            counts = {at: chat.reported(message) for at, message in enumerate(told)}
            messages = [_chat(message) for message in told]
    except Broken as error:
        yield Unreadable(where, str(error))
        return
    yield from unrolled(messages, where, conversation=conversation, reported=counts)


def _is_told(message: Mapping[str, Any]) -> bool:
    """Whether the agent of τ² sees a message."""
    if message["role"] == "tool":
        return message.get("requestor") != "user"
    return message["role"] == "assistant" or message.get("content") is not None


def _chat(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of τ² in OpenAI's form. Raises ``Broken``."""
    made: dict[str, Any] = {"role": message["role"], "content": message.get("content")}
    if message["role"] == "tool":
        made["tool_call_id"] = message.get("id")
    calls = objects(message.get("tool_calls"))
    if calls and message["role"] == "assistant":
        made["tool_calls"] = [
            function(call.get("name"), dumped(call.get("arguments") or {}), call.get("id"))
            for call in calls
        ]
    return made


FORMAT = Format("tau_bench", "trajectories of τ-bench", _claims, _read)
