"""Is this a history of OpenHands' events, and which requests did its agent send?

Each event is an action or what was observed of one. An action carries the model's answer, with its
counts; what the agent did with it is not of interest here. An evaluation has a run a line, with the
history under a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import chat
from kvagent.audit.formats.fields import (
    items,
    mapping,
    name,
    objects,
    seconds,
    string,
    tokens,
)
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.unroll import Prefix, completeness, grown
from kvagent.audit.transcript import Item, Place, Reported, Request, Unreadable

# What happens on the way and is not told the model.
_SILENT = ("agent_state_changed", "null", "recall", "change_agent_state", "user_rejected")


class _Run:
    """A run while its events come in."""

    def __init__(self, place: Place, conversation: str | None, counts: Any) -> None:
        self._place = place
        self._conversation = conversation
        self._counts = {
            usage["response_id"]: usage
            for usage in objects(counts)
            if isinstance(usage.get("response_id"), str)
        }
        self._prompt = Prefix([])
        self._departs: str | None = None
        self._tools: list[Any] = []
        self._has_system = False
        self._answers: set[str] = set()
        self._events: dict[int, dict[str, Any]] = {}

    def add(self, at: str, event: Mapping[str, Any]) -> Iterator[Request]:
        """Take the next event."""
        action, observation = event.get("action"), event.get("observation")
        args = mapping(event.get("args"))
        if action == "system":
            self._has_system = True
            self._tools = objects(args.get("tools"))
            self._say(event, "system", string(args.get("content")) or "")
        elif action == "condensation":
            self._condense(args)
        elif action is not None and event.get("source") == "agent":
            yield from self._act(at, event, args)
        elif action == "message":
            self._say(event, "user", string(args.get("content")) or "")
        elif observation is not None and observation not in _SILENT:
            call = mapping(event.get("tool_call_metadata")).get("tool_call_id")
            text = string(event.get("content")) or ""
            if isinstance(call, str):
                self._add(event, {"role": "tool", "tool_call_id": call, "content": text})
            else:
                self._say(event, "user", text)

    def _act(self, at: str, event: Mapping[str, Any], args: Mapping[str, Any]) -> Iterator[Request]:
        answer = mapping(mapping(event.get("tool_call_metadata")).get("model_response"))
        replies = list(chat.DIALECT.answered(answer).replies)
        if not replies and event.get("action") == "message":
            replies = [{"role": "assistant", "content": string(args.get("content")) or ""}]
        if not replies:
            return
        answered = string(answer.get("id"))
        if answered is not None:
            if answered in self._answers:  # one answer may call for several actions
                return
            self._answers.add(answered)
        reply = {"role": "assistant", **{k: v for k, v in replies[0].items() if v is not None}}
        if self._prompt:
            departs, self._departs = self._departs, None
            yield Request(
                place=Place(self._place.file, self._place.line, self._place.path + at),
                messages=self._prompt,
                tools=self._tools,
                options={"model": answer.get("model")} if answer else {},
                replies=(reply,),
                reported=self._reported(answered, answer),
                conversation=self._conversation,
                time_s=seconds(event.get("timestamp")),
                complete=completeness(system=self._has_system, tools=bool(self._tools)),
                unrolled=True,
                departs=departs,
            )
        self._add(event, reply)

    def _reported(self, answered: str | None, answer: Mapping[str, Any]) -> Reported:
        """The counts of the answer; those of OpenHands' own have what was cached, too."""
        said = chat.reported(answer)
        usage = self._counts.get(answered or "")
        if usage is None:
            return said
        prompt = tokens(usage.get("prompt_tokens"))
        return Reported(
            said.prompt_tokens if prompt is None else prompt,
            tokens(usage.get("cache_read_tokens")),
            said.completion_tokens
            if usage.get("completion_tokens") is None
            else tokens(usage["completion_tokens"]),
            tokens(usage.get("cache_write_tokens")),
        )

    def _say(self, event: Mapping[str, Any], role: str, text: str) -> None:
        self._add(event, {"role": role, "content": text})

    def _add(self, event: Mapping[str, Any], message: dict[str, Any]) -> None:
        number = event.get("id")
        if isinstance(number, int):
            self._events[number] = message
        self._prompt = grown(self._prompt, message)

    def _condense(self, args: Mapping[str, Any]) -> None:
        """Leave out what was forgotten, and put a summary in its place if there is one."""
        ids = [
            number for number in items(args.get("forgotten_event_ids")) if isinstance(number, int)
        ]
        start, end = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
        forgotten = {id(self._events[number]) for number in ids if number in self._events}
        if isinstance(start, int) and isinstance(end, int):
            forgotten |= {
                id(message) for number, message in self._events.items() if start <= number <= end
            }
        kept = [message for message in self._prompt if id(message) not in forgotten]
        summary = string(args.get("summary"))
        if summary is not None:
            offset = tokens(args.get("summary_offset"))
            at = len(kept) if offset is None else min(offset, len(kept))
            kept.insert(at, {"role": "user", "content": summary})
        self._prompt = Prefix(kept)
        self._departs = "compaction"


def _is_event(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and ("action" in value or "observation" in value)
        and "source" in value
        and "id" in value
    )


def _is_run(value: Any) -> bool:
    return isinstance(value, dict) and any(map(_is_event, _flat(value.get("history"))[:3]))


def _flat(history: Any) -> list[Any]:
    """The events of a history; the first versions had pairs of action and observation."""
    flat: list[Any] = []
    for event in items(history):
        flat.extend(event if isinstance(event, list) else (event,))
    return flat


def _claims(contents: Contents) -> bool:
    for value in contents.values:
        if _is_event(value) or _is_run(value):
            return True
        if isinstance(value, list) and any(
            _is_event(each) or _is_run(each) for each in _flat(value[:3])
        ):
            return True
    return False


def _run(place: Place, record: Mapping[str, Any]) -> Iterator[Item]:
    metrics = mapping(record.get("metrics"))
    conversation = name(record.get("instance_id"))
    yield from _events(
        place, ".history", record.get("history"), conversation, metrics.get("token_usages")
    )


def _events(
    place: Place, path: str, history: Any, conversation: str | None, counts: Any = None
) -> Iterator[Item]:
    run = _Run(place, conversation, counts)
    for at, event in enumerate(_flat(history)):
        if isinstance(event, dict):
            yield from run.add(f"{path}[{at}]", event)
        else:
            where = Place(place.file, place.line, f"{place.path}{path}[{at}]")
            yield Unreadable(where, "is no event")


def _read(contents: Contents) -> Iterator[Item]:
    lines: _Run | None = None
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        if _is_run(value):
            yield from _run(place, value)
        elif _is_event(value):  # one event a line
            lines = lines or _Run(place, None, None)
            for request in lines.add("", value):
                yield replace(request, place=place)
        elif isinstance(value, list) and any(map(_is_run, value[:3])):
            for at, record in enumerate(value):
                where = Place(place.file, place.line, f"{place.path}[{at}]")
                if isinstance(record, dict):
                    yield from _run(where, record)
                else:
                    yield Unreadable(where, "is no run")
        elif isinstance(value, list):
            yield from _events(place, "", value, None)
        else:
            yield Unreadable(place, "is neither a run nor an event of OpenHands")


FORMAT = Format("openhands", "events of OpenHands", _claims, _read)
