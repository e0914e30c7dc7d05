"""Are these spans of OpenTelemetry, and which calls of a model do they have?

OTLP as JSON, as the collector writes it: one document, or a batch a line. Messages are attributes of
a span, events of it, or log records that name it. Spans as an SDK prints them are read, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import any_form, genai
from kvagent.audit.formats.fields import first, items, mapping, name, objects, seconds, string, told
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import HEAD_ROLES, completeness
from kvagent.audit.transcript import Item, Place, Request, Unreadable

_SCOPES = ("scopeSpans", "instrumentationLibrarySpans", "scopeLogs", "instrumentationLibraryLogs")
_DETAILS = "gen_ai.client.inference.operation.details"
_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "choice",
}
# Before there was an event for each message, one had them all.
_OLDER = {
    "gen_ai.content.prompt": "gen_ai.prompt",
    "gen_ai.content.completion": "gen_ai.completion",
}
_DEEPEST = 20


def value_of(value: Any, depth: int = 0) -> Any:
    """What a value of OTLP says: each has its type as the name of its only key."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None if isinstance(value, dict) else value
    for key in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        if key in value:
            return value[key]
    if "intValue" in value:
        number = value["intValue"]
        if isinstance(number, str) and len(number) < 20:
            try:
                return int(number)
            except ValueError:
                return number
        return number
    if "arrayValue" in value:
        inner = items(mapping(value["arrayValue"]).get("values"))
        return [value_of(each, depth + 1) for each in inner]
    if "kvlistValue" in value:
        return attributes_of(mapping(value["kvlistValue"]).get("values"), depth + 1)
    return None


def attributes_of(value: Any, depth: int = 0) -> dict[str, Any]:
    """Attributes as an object: OTLP has a list of pairs, an SDK an object."""
    if isinstance(value, dict):
        return value
    return {
        pair["key"]: value_of(pair.get("value"), depth)
        for pair in objects(value)
        if isinstance(pair.get("key"), str)
    }


def _records(
    value: Any, resources: str, kinds: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The spans or log records of a batch, and where they stand."""
    for at, resource in enumerate(items(mapping(value).get(resources))):
        for scopes in _SCOPES:
            for inner, scope in enumerate(items(mapping(resource).get(scopes))):
                for kind in kinds:
                    for number, record in enumerate(items(mapping(scope).get(kind))):
                        if isinstance(record, dict):
                            yield f".{resources}[{at}].{scopes}[{inner}].{kind}[{number}]", record


def _is_span(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    attributes = value.get("attributes")
    return (
        isinstance(attributes, dict)
        and bool({"context", "trace_id", "span_id", "traceId", "spanId"} & value.keys())
        and any(key.startswith(("gen_ai.", "llm.", "ai.prompt")) for key in attributes)
    )


def _is_batch(value: Any) -> bool:
    return isinstance(value, dict) and ("resourceSpans" in value or "resourceLogs" in value)


def _claims(contents: Contents) -> bool:
    return any(
        _is_batch(each) or _is_span(each)
        for value in contents.values
        for each in (value[:20] if isinstance(value, list) else [value])
    )


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        if not isinstance(value, list):
            yield from _batch(place, value)
            continue
        for at, one in enumerate(value):
            yield from _batch(Place(place.file, place.line, f"{place.path}[{at}]"), one)


def _batch(place: Place, value: Any) -> Iterator[Item]:
    if not _is_batch(value):
        if isinstance(value, dict) and "attributes" in value:
            yield from _span(place, value, [])
        else:
            yield Unreadable(place, "is no batch of spans")
        return
    logs: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for path, record in _records(value, "resourceLogs", ("logRecords", "logs")):
        logs.setdefault(string(record.get("spanId")) or "", []).append((path, record))
    spans = [
        (seconds(record.get("startTimeUnixNano")) or 0.0, number, path, record)
        for number, (path, record) in enumerate(_records(value, "resourceSpans", ("spans",)))
    ]
    # Where a framework and the client below it are traced, a call has a span within a span: the
    # inner one is told.
    calls = [each for *_, each in spans if genai.is_call(attributes_of(each.get("attributes")))]
    ids = {string(each.get("spanId")) for each in calls}
    outer = {string(each.get("parentSpanId")) for each in calls} & ids - {None}
    # A span is written when it ends, so those within others come first.
    for _, _, path, record in sorted(spans, key=lambda span: span[:2]):
        own = logs.pop(string(record.get("spanId")) or "-", [])
        if string(record.get("spanId")) in outer:
            continue
        where = Place(place.file, place.line, place.path + path)
        yield from _span(where, record, [log for _, log in own])
    for alone in logs.values():
        for path, record in alone:
            attributes = attributes_of(record.get("attributes"))
            if _name(record, attributes) == _DETAILS:
                where = Place(place.file, place.line, place.path + path)
                yield from _call(where, record, {**attributes, **mapping(_body(record))}, [])


def _name(event: Mapping[str, Any], attributes: Mapping[str, Any]) -> str | None:
    return string(first(event, ("eventName", "name", "event_name")) or attributes.get("event.name"))


def _body(record: Mapping[str, Any]) -> Any:
    body = record.get("body")
    return value_of(body) if isinstance(body, dict) else body


def _span(place: Place, span: Mapping[str, Any], logs: list[dict[str, Any]]) -> Iterator[Item]:
    attributes = attributes_of(span.get("attributes"))
    messages: list[dict[str, Any]] = []
    for event in [*objects(span.get("events")), *logs]:
        told = attributes_of(event.get("attributes"))
        kind = _name(event, told)
        if kind in _ROLES:
            messages.append(_message(_ROLES[kind], {**told, **mapping(_body(event))}))
        elif kind in _OLDER and _OLDER[kind] in told:
            attributes = {**attributes, _OLDER[kind]: told[_OLDER[kind]]}
        elif kind == _DETAILS:
            attributes = {**attributes, **told, **mapping(_body(event))}
    if not messages:
        listed = any_form.unwrapped(first(attributes, ("events", "all_messages_events")))
        for event in objects(listed):
            kind = event.get("event.name")
            if isinstance(kind, str) and kind in _ROLES:
                messages.append(_message(_ROLES[kind], event))
    if messages or genai.is_call(attributes):
        yield from _call(place, span, attributes, messages)


def _message(role: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A message that an event told."""
    inner = mapping(any_form.unwrapped(fields.get("message")))
    content = first(fields, ("content", "gen_ai.event.content"))
    made: dict[str, Any] = {
        "role": role,
        "content": inner.get("content") if content is None else content,
    }
    calls = objects(any_form.unwrapped(fields.get("tool_calls") or inner.get("tool_calls")))
    if calls:
        made["tool_calls"] = calls
    if role == "tool":
        made["tool_call_id"] = first(fields, ("id", "tool_call_id"))
    return made


def _call(
    place: Place,
    span: Mapping[str, Any],
    attributes: Mapping[str, Any],
    messages: list[dict[str, Any]],
) -> Iterator[Item]:
    try:
        call = genai.call_of(attributes, messages)
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    if not call.messages:
        yield Unreadable(place, "is a call without messages")
        return
    context = mapping(span.get("context"))
    status = mapping(span.get("status"))
    failed = status.get("code") in (2, "STATUS_CODE_ERROR") or status.get("status_code") == "ERROR"
    trace = first(span, ("traceId", "trace_id")) or context.get("trace_id")
    started = first(span, ("startTimeUnixNano", "start_time", "timeUnixNano"))
    yield Request(
        place=place,
        messages=call.messages,
        tools=call.tools,
        options={"model": call.model} if call.model else {},
        replies=() if failed else call.replies,
        reported=call.reported,
        error=(told(first(status, ("message", "description"))) or "an error") if failed else None,
        conversation=call.conversation or name(trace),
        time_s=seconds(started),
        complete=completeness(
            system=call.messages[0].get("role") in HEAD_ROLES, tools=bool(call.tools)
        ),
    )


FORMAT = Format("otlp", "spans of OpenTelemetry", _claims, _read)
