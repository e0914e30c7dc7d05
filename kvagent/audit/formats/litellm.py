"""Is this a log of LiteLLM, and which requests does it have?

What its callbacks and its proxy write of a call, and what OpenHands writes with its help: messages
and answer in OpenAI's form whatever the model, beside cost, times and ids. Tools stand among the
parameters of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats import exchange
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects.call import Answered
from kvagent.audit.formats.fields import (
    first,
    mapping,
    name,
    objects,
    seconds,
    string,
    tokens,
    told,
)
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken, parsed_text
from kvagent.audit.transcript import Item, Place, Reported, Unreadable

_PARAMETERS = ("model_parameters", "optional_params", "kwargs", "litellm_params", "args")
_CONVERSATIONS = ("session_id", "litellm_session_id", "trace_id", "litellm_trace_id")
_TIMES = ("startTime", "start_time", "timestamp")
# What a record has beside messages and an answer, where LiteLLM wrote it.
_OWN = frozenset({"litellm_call_id", "litellm_params", "call_type", "litellm_trace_id"})
_OPENHANDS = frozenset({"cost", "timestamp"})


def _is_record(value: Any) -> bool:
    if not isinstance(value, dict) or "messages" not in value:
        return False
    return bool(_OWN & value.keys()) or (
        "response" in value
        and value.keys() >= _OPENHANDS
        and bool({"kwargs", "args", "latency_sec"} & value.keys())
    )


def _claims(contents: Contents) -> bool:
    return any(
        _is_record(record)
        for value in contents.values
        for record in (value[:3] if isinstance(value, list) else [value])
    )


def _unfolded(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with what it has as JSON text, and its parameters, as keys of its own."""
    body = dict(record)
    for key in ("messages", "response", "model_parameters", "optional_params", "metadata"):
        if isinstance(body.get(key), str) and body[key].lstrip()[:1] in ("{", "["):
            try:
                body[key] = parsed_text(body[key])
            except Broken:
                continue
    for key in _PARAMETERS:
        given = mapping(body.get(key))
        for known in ("tools", "functions", "tool_choice"):
            if known in given and known not in body:
                body[known] = given[known]
    return body


def _requests(place: Place, record: Mapping[str, Any]) -> Iterator[Item]:
    unfolded = _unfolded(record)
    messages = unfolded.get("messages")
    if isinstance(messages, dict) and "messages" in messages:
        messages = messages["messages"]
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    found = exchange.body_of({**_asked(unfolded), "messages": messages})
    if found is None:
        yield Unreadable(place, 'has no list of "messages"')
        return
    try:
        asked = found.dialect.asked(found.body)
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    answered = exchange.answer_of(unfolded) or Answered()
    said = answered.reported
    if said.prompt_tokens is None:
        said = Reported(
            tokens(record.get("prompt_tokens")),
            said.cached_tokens,
            tokens(record.get("completion_tokens")),
        )
    failure = mapping(unfolded.get("error_information")).get("error_message")
    refusal = answered.error or string(record.get("error_str")) or told(failure)
    metadata = mapping(unfolded.get("metadata"))
    conversation = first(unfolded, _CONVERSATIONS) or first(metadata, _CONVERSATIONS)
    yield exchange.made(
        Place(place.file, place.line, f"{place.path}.messages"),
        asked.messages,
        asked.tools,
        asked.options,
        Answered(answered.replies, said, refusal, answered.time),
        name(conversation),
        seconds(first(record, _TIMES)),
        wire=True,
    )


def _asked(record: Mapping[str, Any]) -> dict[str, Any]:
    """The body that was sent, as far as the record tells it."""
    body = {
        key: record[key]
        for key in ("model", "tools", "functions", "tool_choice")
        if record.get(key) is not None
    }
    if not objects(body.get("tools")):
        body.pop("tools", None)
    return body


def _read(contents: Contents) -> Iterator[Item]:
    for each in exchange.records(contents):
        if isinstance(each, Unreadable):
            yield each
        elif isinstance(each[1], dict):
            yield from _requests(each[0], each[1])
        else:
            yield Unreadable(each[0], "is no object")


FORMAT = Format("litellm", "a log of LiteLLM", _claims, _read)
