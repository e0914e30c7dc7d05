"""Is this a history of events of OpenHands' SDK, and which requests did its agent send?

Each event names its kind. Those that go to the model are messages, calls, and results; calls of one
answer are events of their own with the answer's id. Tools are told by their names only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects.call import function, plain
from kvagent.audit.formats.fields import items, mapping, name, seconds, shown, string, tokens
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken, dumped
from kvagent.audit.formats.unroll import Prefix, completeness, grown
from kvagent.audit.transcript import Item, Place, Request, Unreadable

_KINDS = (
    "SystemPromptEvent",
    "MessageEvent",
    "ActionEvent",
    "ObservationEvent",
    "UserRejectObservation",
    "AgentErrorEvent",
    "Condensation",
)


class _Run:
    """A run while its events come in."""

    def __init__(self, conversation: str | None) -> None:
        self._conversation = conversation
        self._prompt = Prefix([])
        self._departs: str | None = None
        self._has_system = False
        self._answer: tuple[str | None, Request] | None = None
        self._messages: dict[str, dict[str, Any]] = {}

    def add(self, place: Place, event: Mapping[str, Any]) -> Iterator[Request]:
        """Take the next event. Raises ``Broken``."""
        kind = event.get("kind")
        if kind != "ActionEvent":
            yield from self.end()
        if kind == "SystemPromptEvent":
            self._has_system = True
            parts = [event.get("system_prompt"), event.get("dynamic_context")]
            self._say(event, {"role": "system", "content": _content(parts)})
        elif kind == "MessageEvent":
            message = mapping(event.get("llm_message"))
            role = string(message.get("role")) or "user"
            content = [*items(message.get("content")), *items(event.get("extended_content"))]
            said = {"role": role, "content": _content(content)}
            if role == "assistant" and self._prompt:
                yield self._request(place, event, said)
            self._say(event, said)
        elif kind == "ActionEvent":
            yield from self._act(place, event)
        elif kind == "ObservationEvent":
            observed = mapping(event.get("observation"))
            content = [observed.get("content") or observed.get("output")]
            self._result(event, [*content, *items(event.get("extended_content"))])
        elif kind == "UserRejectObservation":
            self._result(event, [f"Action rejected: {string(event.get('rejection_reason')) or ''}"])
        elif kind == "AgentErrorEvent":
            self._result(event, [event.get("error")])
        elif kind == "Condensation":
            self._condense(event)

    def end(self) -> Iterator[Request]:
        """The answer of which there might have been another call."""
        if self._answer is not None and self._answer[1].messages:
            yield self._answer[1]
        self._answer = None

    def _act(self, place: Place, event: Mapping[str, Any]) -> Iterator[Request]:
        call = mapping(event.get("tool_call"))
        inner = mapping(call.get("function"))
        given = call.get("arguments", inner.get("arguments"))
        made = function(
            call.get("name") or inner.get("name") or event.get("tool_name"),
            given if isinstance(given, str) else dumped(given or {}),
            event.get("tool_call_id") or call.get("id"),
        )
        answer = string(event.get("llm_response_id"))
        if answer is not None and self._answer is not None and self._answer[0] == answer:
            calls: list[Any] = self._messages[""]["tool_calls"]
            calls.append(made)
            return
        yield from self.end()
        reply: dict[str, Any] = {"role": "assistant", "content": _content([event.get("thought")])}
        thought = string(event.get("reasoning_content"))
        if thought is not None:
            reply["reasoning_content"] = thought
        reply["tool_calls"] = [made]
        self._answer = answer, self._request(place, event, reply)
        self._messages[""] = reply
        self._say(event, reply)

    def _result(self, event: Mapping[str, Any], content: list[Any]) -> None:
        call = event.get("tool_call_id")
        self._say(event, {"role": "tool", "tool_call_id": call, "content": _content(content)})

    def _say(self, event: Mapping[str, Any], message: dict[str, Any]) -> None:
        id = string(event.get("id"))  # noqa: A001 - the event's own word
        if id is not None:
            self._messages[id] = message
        self._prompt = grown(self._prompt, message)

    def _condense(self, event: Mapping[str, Any]) -> None:
        """Leave out what was forgotten, and put a summary in its place if there is one."""
        forgotten = {
            id(self._messages[each])
            for each in items(event.get("forgotten_event_ids"))
            if isinstance(each, str) and each in self._messages
        }
        kept = [message for message in self._prompt if id(message) not in forgotten]
        summary = string(event.get("summary"))
        if summary is not None:
            offset = tokens(event.get("summary_offset"))
            at = len(kept) if offset is None else min(offset, len(kept))
            kept.insert(at, {"role": "user", "content": summary})
        self._prompt = Prefix(kept)
        self._departs = "compaction"

    def _request(self, place: Place, event: Mapping[str, Any], reply: dict[str, Any]) -> Request:
        departs, self._departs = self._departs, None
        return Request(
            place=place,
            messages=self._prompt,
            replies=(reply,),
            conversation=self._conversation,
            time_s=seconds(event.get("timestamp")),
            complete=completeness(system=self._has_system, tools=False),
            unrolled=True,
            departs=departs,
        )


def _content(content: list[Any]) -> Any:
    """Content in OpenAI's form, of texts, text parts, pictures, and lists of them."""
    parts: list[dict[str, Any]] = []
    for part in content:
        for each in part if isinstance(part, list) else [part]:
            urls = items(mapping(each).get("image_urls"))
            parts.extend({"type": "image_url", "image_url": {"url": url}} for url in urls)
            text = shown(each)
            if text:
                parts.append({"type": "text", "text": text})
    return plain(parts)


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and value.get("kind") in _KINDS


def _events(value: Any) -> tuple[str, list[Any]] | None:
    """The events of a run, and where they stand."""
    for path, held in (
        (("", value),)
        if isinstance(value, list)
        else tuple((f".{key}", mapping(value).get(key)) for key in ("history", "events", "items"))
    ):
        if any(map(_is_event, items(held)[:10])):
            return path, items(held)
    return None


def _claims(contents: Contents) -> bool:
    return any(_is_event(value) or _events(value) is not None for value in contents.values)


def _read(contents: Contents) -> Iterator[Item]:
    lines: _Run | None = None
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        found = _events(value)
        if found is not None:
            path, events = found
            run = _Run(name(mapping(value).get("instance_id")))
            for at, event in enumerate(events):
                where = replace(place, path=f"{place.path}{path}[{at}]")
                yield from _added(run, where, event)
            yield from run.end()
        else:  # one event a line
            lines = lines or _Run(None)
            yield from _added(lines, place, value)
    if lines is not None:
        yield from lines.end()


def _added(run: _Run, place: Place, event: Any) -> Iterator[Item]:
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str):
        yield Unreadable(place, "is no event of OpenHands' SDK")
        return
    try:
        yield from run.add(place, event)
    except Broken as error:
        yield Unreadable(place, str(error))


FORMAT = Format("openhands_sdk", "events of OpenHands' SDK", _claims, _read)
