"""Where in a record of a log are the request and what came back?

A record is the request's body; or an object that holds it, as kvagent, proxies and batch files
write it: ``{"body": ...}``, ``{"request": ..., "response": ...}``, ``{"messages": ...,
"response": ...}``. What stands around it may name the conversation and the time. One that has no
answer and ends with the model's message is no request but a session, and is unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvagent.audit.formats import sse
from kvagent.audit.formats.contents import Contents, kind
from kvagent.audit.formats.dialects import DIALECTS, answering, asking
from kvagent.audit.formats.dialects.call import Answered, Dialect
from kvagent.audit.formats.dialects.chat import reported as chat_counts
from kvagent.audit.formats.fields import first, mapping, name, seconds, told
from kvagent.audit.formats.json_text import Broken, parsed_text
from kvagent.audit.formats.unroll import HEAD_ROLES, completeness, unrolled
from kvagent.audit.transcript import Item, Place, Request, Unreadable

_REQUESTS = ("body", "request", "request_body", "kwargs", "raw_request")
_RESPONSES = ("response", "response_body", "raw_response", "completion", "reply", "output")
_CONVERSATIONS = (
    "conversation_id",
    "session_id",
    "thread_id",
    "conversation",
    "session",
    "chat_id",
)
_TIMES = (
    "time_s",
    "timestamp",
    "time",
    "ts",
    "start_time",
    "startTime",
    "created_at",
    "created",
    "at",
)
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body within a record."""

    path: str
    body: Mapping[str, Any]
    dialect: Dialect


def body_of(record: Mapping[str, Any], path: str = "", depth: int = 0) -> Body | None:
    """The request of a record; None where there is none."""
    dialect = asking(record)
    if dialect is not None:
        return Body(path, record, dialect)
    if depth < _DEEPEST:
        for key in _REQUESTS:
            inner = _object(record.get(key))
            if inner is not None:
                found = body_of(inner, f"{path}.{key}", depth + 1)
                if found is not None:
                    return found
    return None


def answer_of(record: Mapping[str, Any], depth: int = 0) -> Answered | None:
    """What came back, as a record says it; None where it does not."""
    for key in _RESPONSES:
        value = record.get(key)
        answered = None if value is None else answered_by(value, depth)
        if answered is not None:
            return answered
    return None


def answered_by(value: Any, depth: int = 0) -> Answered | None:
    """What an answer holds: an object, its JSON text, or the text of its stream."""
    if isinstance(value, str):
        if sse.looks_like_it(value):
            return streamed(value)
        value = _object(value)
    if isinstance(value, list):
        return joined(value)
    if not isinstance(value, dict):
        return None
    dialect = answering(value)
    if dialect is not None:
        return dialect.answered(value)
    error = told(value.get("error"))
    if error is not None:
        return Answered(error=error, reported=chat_counts(value))
    if depth < _DEEPEST:
        for key in ("body", *_RESPONSES):
            if key in value:
                return answered_by(value[key], depth + 1)
    if value.get("role") == "assistant":
        return Answered(replies=[value], reported=chat_counts(value))
    return None


def streamed(text: str) -> Answered | None:
    """What a stream's text holds."""
    return joined(sse.events(text))


def joined(events: list[Any]) -> Answered | None:
    """What a stream's events hold together."""
    chunks = [event for event in events if isinstance(event, dict)]
    for dialect in DIALECTS:
        answer = dialect.joined(chunks)
        if answer is not None:
            return dialect.answered(answer)
    return None


def _object(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = parsed_text(value)
        except Broken:
            return None
    return value if isinstance(value, dict) else None


def requests_of(place: Place, record: Any, *, alone: bool = False) -> Iterator[Item]:
    """The requests of a record; of a session several. ``alone``: the file has no other record."""
    listed = isinstance(record, list)
    if listed:
        record, alone = {"messages": record}, True
    elif not isinstance(record, dict):
        yield Unreadable(place, f"is {kind(record)}, not an object")
        return
    found = body_of(record)
    if found is None:
        yield Unreadable(place, _without(record))
        return
    try:
        asked = found.dialect.asked(found.body)
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    path = "" if listed else f"{found.path}.{found.dialect.messages}"
    at = Place(place.file, place.line, place.path + path)
    answered = answer_of(record)
    conversation = conversation_of(record, *([found.body] if found.path else ()))
    last = asked.messages[-1]
    if answered is None and (
        (last.get("role") == "assistant" and not _continued(asked.options))
        or (alone and any(each.get("role") == "assistant" for each in asked.messages))
    ):
        yield from unrolled(
            asked.messages,
            at,
            tools=asked.tools,
            options=asked.options,
            conversation=conversation,
            has_system=True,
            has_tools=bool(asked.tools) or "tools" in found.body,
            # A list of messages alone may be what was left when the session was over.
            pending=not listed,
        )
        return
    if answered is None:
        answered = Answered(reported=chat_counts(record)) if "usage" in record else _NOTHING
    yield made(
        at,
        asked.messages,
        asked.tools,
        asked.options,
        answered,
        conversation,
        seconds(first(record, _TIMES)),
        whole=asked.complete,
        wire=True,
    )


def made(
    place: Place,
    messages: Any,
    tools: Any,
    options: Mapping[str, Any],
    answered: Answered,
    conversation: str | None,
    time_s: float | None,
    *,
    whole: bool = True,
    wire: bool = False,
) -> Request:
    """The request and what came back.

    ``wire``: it is the body as it went out, so that a head which is not there was not sent.
    """
    if wire:
        complete = _ALL if whole else _NONE
    else:
        has_system = bool(messages) and messages[0].get("role") in HEAD_ROLES
        complete = completeness(system=has_system and whole, tools=bool(tools))
    return Request(
        place=place,
        messages=messages,
        tools=tools,
        options=options,
        replies=answered.replies,
        reported=answered.reported,
        error=answered.error,
        conversation=conversation,
        time_s=time_s if time_s is not None else seconds(answered.time),
        complete=complete,
    )


_NOTHING = Answered()
_ALL = completeness(system=True, tools=True)
_NONE = completeness(system=False, tools=False)


def conversation_of(*holders: Mapping[str, Any]) -> str | None:
    """The id of the conversation that a record, its body or their metadata give."""
    for holder in holders:
        for place in (holder, mapping(holder.get("metadata"))):
            found = name(first(place, _CONVERSATIONS))
            if found is not None:
                return found
    return None


def _continued(options: Mapping[str, Any]) -> bool:
    """Whether the model was to go on with the last message, which then is no answer."""
    return bool(options.get("continue_final_message"))


def _without(record: Mapping[str, Any]) -> str:
    if not record:
        return "is an empty object"
    keys = ", ".join(str(key)[:40] for key in list(record)[:5])
    return f'has no request: neither "messages" nor "input" under its keys {keys}'


def records(contents: Contents) -> Iterator[tuple[Place, Any] | Unreadable]:
    """Every record of a log: one a line, or those of a list."""
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        if isinstance(value, list) and not is_chat(value):
            for at, item in enumerate(value):
                yield Place(place.file, place.line, f"{place.path}[{at}]"), item
        else:
            yield each


def is_chat(value: Any) -> bool:
    """Whether a list is one of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(item, dict) and isinstance(item.get("role"), str) and "messages" not in item
            for item in value[:3]
        )
    )


def read(contents: Contents) -> Iterator[Item]:
    """The requests of a log, whatever APIs they were meant for."""
    alone = contents.alone and isinstance(contents.value, dict)
    for each in records(contents):
        if isinstance(each, Unreadable):
            yield each
        else:
            yield from requests_of(*each, alone=alone)


def first_bodies(contents: Contents) -> Iterator[Body]:
    """The requests among a file's first records."""
    for value in contents.values:
        listed = isinstance(value, list) and not is_chat(value)
        for record in value[:20] if listed else [value]:
            if isinstance(record, list):
                record = {"messages": record}
            if isinstance(record, dict) and (found := body_of(record)) is not None:
                yield found
