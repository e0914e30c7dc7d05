"""Is this a trace of Langfuse, and which calls of a model does it have?

An export has observations; those of the kind GENERATION are calls. What a call was given and gave
is in whatever form the framework had that was traced, often JSON as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import any_form, genai, responses
from kvagent.audit.formats.fields import (
    either_way,
    first,
    items,
    mapping,
    name,
    seconds,
    shown,
    string,
)
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import HEAD_ROLES, completeness
from kvagent.audit.transcript import Item, Place, Reported, Request, Unreadable

_CACHED = (
    "input_cached_tokens",
    "cache_read_input_tokens",
    "input_cache_read",
    "prompt_details.cache_read",
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "cachedInputTokens",
)
_WRITTEN = ("cache_creation_input_tokens", "input_cache_creation", "prompt_details.cache_write")


def _is_observation(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and "traceId" in value
        and ("startTime" in value or "input" in value)
    )


def _observations(value: Any) -> tuple[str, list[Any]] | None:
    """The observations of an export, and where they stand."""
    if isinstance(value, dict):
        trace = mapping(value.get("trace"))
        for path, found in (
            (".observations", items(value.get("observations"))),
            (".trace.observations", items(trace.get("observations"))),
            (".data", items(value.get("data"))),  # a page of the API's list
        ):
            if any(map(_is_observation, found[:3])):
                return path, found
        if _is_observation(value):
            return "", [value]
    if isinstance(value, list) and any(map(_is_observation, value[:3])):
        return "", value
    return None


def _claims(contents: Contents) -> bool:
    return any(_observations(value) is not None for value in contents.values)


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        found = _observations(value)
        if found is None:
            yield Unreadable(place, "has no observations")
            continue
        path, observations = found
        session = name(mapping(mapping(value).get("trace")).get("sessionId"))
        calls = [
            (seconds(mapping(each).get("startTime")) or 0.0, at, each)
            for at, each in enumerate(observations)
            if mapping(each).get("type") == "GENERATION"
        ]
        # An export has them in no order.
        for _, at, call in sorted(calls, key=lambda call: call[:2]):
            where = path if isinstance(value, dict) and not path else f"{path}[{at}]"
            yield from _call(Place(place.file, place.line, place.path + where), call, session)


def _call(place: Place, call: Mapping[str, Any], session: str | None) -> Iterator[Item]:
    given, usage = call.get("input"), mapping(first(call, ("usageDetails", "usage")))
    if given is None and not usage:
        return  # some frameworks tell the beginning and the end of a call apart
    metadata = mapping(any_form.unwrapped(call.get("metadata")))
    attributes = mapping(any_form.unwrapped(metadata.get("attributes")))
    try:
        asked = any_form.told(given)
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    if not asked.messages:
        yield Unreadable(place, "is a call without messages")
        return
    messages = asked.messages
    output = any_form.unwrapped(call.get("output"))
    declared = any_form.tools_of(call.get("toolDefinitions")) or genai.tools_in(attributes)
    if isinstance(output, dict) and responses.DIALECT.answers(output):
        # The Responses API tells with its answer what it was asked with.
        instructions = shown(output.get("instructions"))
        if instructions and messages[0].get("role") not in HEAD_ROLES:
            messages = [{"role": "system", "content": instructions}, *messages]
        declared = declared or responses.tools_of(output.get("tools"))
    tools = asked.tools or declared
    failed = call.get("level") == "ERROR"
    yield Request(
        place=Place(place.file, place.line, f"{place.path}.input"),
        messages=messages,
        tools=tools,
        options={
            "model": call.get("model"),
            **mapping(any_form.unwrapped(call.get("modelParameters"))),
        },
        replies=() if failed else _replies(output),
        reported=_reported(usage),
        error=(string(call.get("statusMessage")) or "an error") if failed else None,
        conversation=session or name(call.get("traceId")),
        time_s=seconds(call.get("startTime")),
        complete=completeness(system=messages[0].get("role") in HEAD_ROLES, tools=bool(tools)),
    )


def _replies(output: Any) -> list[Mapping[str, Any]]:
    if isinstance(output, dict) and responses.DIALECT.answers(output):
        return list(responses.DIALECT.answered(output).replies)
    if isinstance(output, str):
        return [{"role": "assistant", "content": output}] if output else []
    try:
        said = any_form.told(output).messages
    except Broken:
        return []
    return [message for message in said if message.get("role") == "assistant"]


def _reported(usage: Mapping[str, Any]) -> Reported:
    return either_way(
        first(usage, ("input", "promptTokens", "input_tokens", "prompt_tokens")),
        first(usage, _CACHED),
        first(usage, _WRITTEN),
        first(usage, ("output", "completionTokens", "output_tokens", "completion_tokens")),
        first(usage, ("total", "totalTokens", "total_tokens")),
    )


FORMAT = Format("langfuse", "a trace of Langfuse", _claims, _read)
