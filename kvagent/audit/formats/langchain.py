"""Are these messages of LangChain or states of LangGraph, and which requests were sent?

Messages as ``dumpd``, ``message_to_dict`` or a serialised state write them; checkpoints of a thread
with its state at each step; runs as LangSmith exports them. A state has neither the system prompt
nor the tools, unless the agent keeps the prompt among its messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import any_form, langchain
from kvagent.audit.formats.fields import first, items, mapping, name, seconds, string, told
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken, dumped
from kvagent.audit.formats.unroll import HEAD_ROLES, Prefix, completeness
from kvagent.audit.transcript import Item, Place, Request, Unreadable

_VALUES = ("channel_values", "values")


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and langchain.fields(value[0]) is not None


def _state(value: Any) -> tuple[str, list[Any]] | None:
    """The messages of a state or a checkpoint, and where they stand."""
    if _is_messages(value):
        return "", value
    if not isinstance(value, dict):
        return None
    if _is_messages(value.get("messages")):
        return ".messages", value["messages"]
    for key in (*_VALUES, "checkpoint"):
        inner = _state(value.get(key)) if isinstance(value.get(key), dict) else None
        if inner is not None:
            return f".{key}{inner[0]}", inner[1]
    return None


def _is_run(value: Any) -> bool:
    return isinstance(value, dict) and "run_type" in value and isinstance(value.get("inputs"), dict)


def _each(value: Any) -> list[tuple[str, Any]]:
    """The states and runs of a document, and where they stand."""
    if isinstance(value, list) and not _is_messages(value):
        return [(f"[{at}]", each) for at, each in enumerate(value)]
    return [("", value)]


def _claims(contents: Contents) -> bool:
    return any(
        _is_run(each) or _state(each) is not None
        for value in contents.values
        for _, each in _each(value)[:5]
    )


def _read(contents: Contents) -> Iterator[Item]:
    threads = _Threads()
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        found = _each(value)
        if len(found) > 1:  # LangGraph lists the newest state first
            found.sort(key=lambda pair: _when(pair[1]) or 0.0)
        for path, state in found:
            where = Place(place.file, place.line, place.path + path)
            if _is_run(state):
                yield from _run(where, state)
            else:
                yield from threads.add(where, state)


def _when(state: Any) -> float | None:
    state = mapping(state)
    inner = mapping(state.get("checkpoint"))
    return seconds(first(state, ("ts", "created_at", "start_time")) or inner.get("ts"))


class _Threads:
    """What was sent, state after state: each message of the model that was not there before."""

    def __init__(self) -> None:
        self._seen: set[tuple[str | None, str]] = set()

    def add(self, place: Place, state: Any) -> Iterator[Item]:
        """The requests that led to what is new in a state."""
        found = _state(state)
        if found is None:
            if isinstance(state, dict):
                return  # a step before there were messages
            yield Unreadable(place, "is no state with messages")
            return
        path, messages = found
        where = Place(place.file, place.line, place.path + path)
        try:
            sent = any_form.told(messages).messages
        except Broken as error:
            yield Unreadable(where, str(error))
            return
        thread = name(
            mapping(mapping(mapping(state).get("config")).get("configurable")).get("thread_id")
        )
        head = next(
            (at for at, each in enumerate(sent) if each["role"] not in HEAD_ROLES), len(sent)
        )
        for at, message in enumerate(sent):
            if message["role"] != "assistant" or at <= head:
                continue
            try:
                key = thread, string(message.get("id")) or f"{at} {dumped(message)}"
            except Broken as error:
                yield Unreadable(where, str(error))
                continue
            if key in self._seen:
                continue
            self._seen.add(key)
            fields = langchain.fields(messages[at]) if len(messages) == len(sent) else None
            yield Request(
                place=where,
                messages=Prefix(sent, at),
                replies=(message,),
                reported=langchain.reported(fields or {}),
                conversation=thread,
                time_s=_when(state),
                complete=completeness(system=bool(head), tools=False),
                unrolled=True,
            )


def _run(place: Place, run: Mapping[str, Any]) -> Iterator[Item]:
    """A run of LangSmith, if it is one of a model."""
    if run.get("run_type") != "llm":
        return
    try:
        asked = any_form.told(run["inputs"])
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    if not asked.messages:
        yield Unreadable(place, "is a call without messages")
        return
    parameters = mapping(mapping(run.get("extra")).get("invocation_params"))
    tools = asked.tools or any_form.tools_of(parameters.get("tools"))
    outputs = mapping(run.get("outputs"))
    answers = [
        langchain.fields(mapping(generation).get("message"))
        for group in items(outputs.get("generations"))
        for generation in (group if isinstance(group, list) else [group])
    ]
    said = [fields for fields in answers if fields is not None]
    try:
        replies = [langchain.chat(fields) for fields in said]
    except Broken:
        replies = []
    metadata = mapping(mapping(run.get("extra")).get("metadata"))
    yield Request(
        place=place,
        messages=asked.messages,
        tools=tools,
        options={key: part for key, part in parameters.items() if key != "tools"},
        replies=replies,
        reported=langchain.reported(said[0] if said else {}),
        error=told(run.get("error")),
        conversation=name(
            first(metadata, ("thread_id", "session_id", "conversation_id")) or run.get("trace_id")
        ),
        time_s=seconds(run.get("start_time")),
        complete=completeness(system=True, tools=bool(tools or parameters)),
    )


FORMAT = Format("langchain", "messages of LangChain or states of LangGraph", _claims, _read)
