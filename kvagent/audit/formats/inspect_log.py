"""Is this a log of Inspect, and which calls of a model does it have?

A log is a document with samples, an archive of them (``.eval``), or one sample. A call is an event
that holds what the model was sent and what came back; long texts stand apart as attachments.
Answers that Inspect had kept from an earlier run were never asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kvagent.audit.formats import zipped
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects.call import function, plain, tool
from kvagent.audit.formats.fields import (
    either_way,
    items,
    mapping,
    name,
    objects,
    seconds,
    shown,
)
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken, dumped, parsed
from kvagent.audit.formats.unroll import completeness
from kvagent.audit.transcript import Item, Place, Reported, Request, Unreadable

_ATTACHED = "attachment://"
# A message nests by few; what is deeper holds no text that a model reads.
_DEEPEST = 12
_PARTS = (b"_journal/", b"header.json", b"samples/", b"summaries.json")


def _with_texts(value: Any, attachments: Mapping[str, Any], depth: int = 0) -> Any:
    """The value with every attachment in its place."""
    if isinstance(value, str):
        if value.startswith(_ATTACHED):
            text = attachments.get(value[len(_ATTACHED) :])
            return text if isinstance(text, str) else value
        return value
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return [_with_texts(item, attachments, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: _with_texts(item, attachments, depth + 1) for key, item in value.items()}
    return value


class _Messages:
    """Messages of Inspect in OpenAI's form; each is made once, as calls repeat them."""

    def __init__(self, attachments: Mapping[str, Any], pool: Any) -> None:
        self._attachments = attachments
        self._pool = items(pool)
        self._made: dict[str, tuple[Any, dict[str, Any]]] = {}

    def of(self, messages: Any, refs: Any) -> list[dict[str, Any]]:
        """The messages of a call. Raises ``Broken``."""
        found = [*items(messages), *self._pooled(refs)]
        return [self.one(at, message) for at, message in enumerate(found)]

    def one(self, at: int, message: Any) -> dict[str, Any]:
        """A message. Raises ``Broken``."""
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Broken(f"has no object with a role as message {at}")
        key = message.get("id")
        if isinstance(key, str):
            known = self._made.get(key)
            if known is not None and _same(known[0], message):
                return known[1]
        made = _chat(_with_texts(message, self._attachments))
        if isinstance(key, str):
            self._made[key] = (message, made)
        return made

    def _pooled(self, refs: Any) -> Iterator[Any]:
        """Later versions keep each message once, and a call names ranges of them."""
        for ref in items(refs):
            start, end = ref if isinstance(ref, list) and len(ref) == 2 else (ref, None)
            if isinstance(start, int):
                stop = end if isinstance(end, int) else start + 1
                yield from self._pool[max(start, 0) : max(stop, 0)]


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except RecursionError:
        return False


def _chat(message: Mapping[str, Any]) -> dict[str, Any]:
    role = message["role"]
    content, thoughts = _content(message.get("content"))
    made: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        made["tool_call_id"] = message.get("tool_call_id")
        error = mapping(message.get("error")).get("message")
        if isinstance(error, str) and error and not content:
            made["content"] = error
    if thoughts:
        made["reasoning_content"] = thoughts
    calls = [
        function(
            mapping(call.get("function")).get("name") or call.get("function"),
            _arguments(call.get("arguments")),
            call.get("id"),
        )
        for call in objects(message.get("tool_calls"))
    ]
    if calls:
        made["tool_calls"] = calls
    return made


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else dumped(arguments or {})


def _content(content: Any) -> tuple[Any, str]:
    """What a message says, and what the model thought."""
    if isinstance(content, str):
        return content, ""
    parts: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for block in objects(content):
        kind = block.get("type")
        if kind == "reasoning":
            thoughts.append(shown(block.get("reasoning")))
        elif kind == "image":
            parts.append({"type": "image_url", "image_url": {"url": block.get("image")}})
        else:
            parts.append({"type": "text", "text": shown(block)})
    return plain(parts), "\n".join(filter(None, thoughts))


def _reported(usage: Any) -> Reported:
    usage = mapping(usage)
    return either_way(
        usage.get("input_tokens"),
        usage.get("input_tokens_cache_read"),
        usage.get("input_tokens_cache_write"),
        usage.get("output_tokens"),
        usage.get("total_tokens"),
    )


def _sample(place: Place, sample: Mapping[str, Any]) -> Iterator[Item]:
    pools = mapping(sample.get("events_data"))
    attachments = mapping(sample.get("attachments"))
    messages = _Messages(attachments, pools.get("messages"))
    ids = [name(sample.get(key)) for key in ("id", "epoch")]
    conversation = "/".join(filter(None, ids)) or None
    departs: str | None = None
    for at, event in enumerate(items(sample.get("events"))):
        event = mapping(event)
        if event.get("event") == "compaction":
            departs = "compaction"
        if event.get("event") != "model" or event.get("cache") == "read" or event.get("pending"):
            continue
        where = Place(place.file, place.line, f"{place.path}.events[{at}]")
        try:
            yield replace(_call(where, event, messages, attachments, conversation), departs=departs)
            departs = None
        except Broken as error:
            yield Unreadable(where, str(error))


def _call(
    place: Place,
    event: Mapping[str, Any],
    messages: _Messages,
    attachments: Mapping[str, Any],
    conversation: str | None,
) -> Request:
    sent = messages.of(event.get("input"), event.get("input_refs"))
    if not sent:
        raise Broken("is a call without messages")
    output = mapping(event.get("output"))
    replies = [
        messages.one(at, choice.get("message"))
        for at, choice in enumerate(objects(output.get("choices")))
    ]
    error = event.get("error") or output.get("error")
    role = name(event.get("role"))
    return Request(
        place=replace(place, path=f"{place.path}.input"),
        messages=sent,
        tools=[
            tool(each.get("name"), each.get("description"), each.get("parameters"))
            for each in objects(_with_texts(event.get("tools"), attachments))
        ],
        options={"model": event.get("model"), **mapping(event.get("config"))},
        replies=replies if not error else (),
        reported=_reported(output.get("usage")),
        error=error if isinstance(error, str) else None,
        # A model in another role, a grader say, has conversations of its own.
        conversation=f"{conversation}/{role}" if role else conversation,
        time_s=seconds(event.get("timestamp")),
        complete=completeness(system=True, tools=True),
    )


def _is_sample(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("events"), list)
        and "epoch" in value
        and "messages" in value
    )


def _is_log(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("eval"), dict)
        and ("samples" in value or "plan" in value)
    )


def _is_archive(contents: Contents) -> bool:
    """Whether it is a ZIP file that begins with a part that is Inspect's."""
    head = contents.head[:200]
    return head.startswith(zipped.MAGIC) and any(part in head for part in _PARTS)


def _claims(contents: Contents) -> bool:
    return _is_archive(contents) or any(
        _is_sample(value) or _is_log(value) for value in contents.values
    )


def _archive(place: Place, raw: bytes) -> Iterator[Item]:
    try:
        for part, data in zipped.parts(place.file, raw):
            if not part.startswith("samples/"):
                continue
            where = Place(place.file, None, part)
            if isinstance(data, Broken):
                yield Unreadable(where, str(data))
                continue
            try:
                sample = parsed(data)
            except Broken as error:
                yield Unreadable(where, str(error))
                continue
            yield from _sample(where, mapping(sample))
    except Broken as error:
        yield Unreadable(place, str(error))


def _read(contents: Contents) -> Iterator[Item]:
    if contents.raw and _is_archive(contents):
        yield from _archive(Place(contents.source.name), contents.raw)
        return
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        if not _is_log(value):
            yield from _sample(place, value)
            continue
        for at, sample in enumerate(items(value.get("samples"))):
            where = Place(place.file, place.line, f"{place.path}.samples[{at}]")
            if isinstance(sample, dict):
                yield from _sample(where, sample)
            else:
                yield Unreadable(where, "is no sample")


FORMAT = Format("inspect", "a log of Inspect", _claims, _read)
