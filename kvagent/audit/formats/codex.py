"""Is this a rollout of Codex, and which requests did it send?

One line an item of the conversation, in the form of OpenAI's Responses API, between events. What
the model made up to the next ``token_count`` or result was one call. A compaction replaces what came
before, and a turn that the user took back is gone. The tools are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects.responses import RESULTS, Chat, made
from kvagent.audit.formats.fields import items, mapping, seconds, shown, string, tokens, told
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import Prefix, completeness
from kvagent.audit.transcript import Item, Place, Reported, Request, Unreadable

_LINES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state")


@dataclass(slots=True)
class _Call:
    """A call of the model while its items come in."""

    place: Place
    time_s: float | None
    prompt: Prefix
    at: int
    """The number of its first message."""
    replies: list[dict[str, Any]] = field(default_factory=list)


class _Session:
    """A conversation while its lines come in."""

    def __init__(self) -> None:
        self._chat = Chat()
        self._name: str | None = None
        self._has_system = False
        self._options: dict[str, Any] = {}
        self._call: _Call | None = None
        self._ended = True
        self._counted: tuple[int, ...] = ()
        self._turns: list[int] = []
        self._departs: str | None = None

    def add(self, place: Place, line: Mapping[str, Any]) -> Iterator[Request]:
        """Take the next line. Raises ``Broken``."""
        kind = line.get("type")
        payload = mapping(line.get("payload"))
        if kind == "session_meta" or (kind is None and "instructions" in line):
            self._meta(payload or line)
        elif kind == "turn_context":
            self._options = {
                key: payload[key] for key in ("model", "effort") if payload.get(key) is not None
            }
        elif kind == "compacted":
            yield from self.end()
            self._compacted(payload)
        elif kind == "event_msg":
            yield from self._event(place, line, payload)
        elif kind == "response_item":
            yield from self._item(place, line, payload)
        elif "payload" not in line:  # the first versions had the items as they are
            yield from self._item(place, line, line)

    def end(self) -> Iterator[Request]:
        """The call that waited for its counts."""
        yield from self._answered(Reported())
        self._ended = True

    def _meta(self, meta: Mapping[str, Any]) -> None:
        self._name = string(meta.get("id")) or self._name
        system = shown(meta.get("base_instructions")) or shown(meta.get("instructions"))
        if system and not self._chat.messages:
            self._has_system = True
            self._chat.messages.append({"role": "system", "content": system})

    def _item(
        self, place: Place, line: Mapping[str, Any], item: Mapping[str, Any]
    ) -> Iterator[Request]:
        messages = self._chat.messages
        if made(item):
            if self._ended:
                yield from self.end()
                self._ended = False
                self._chat.part()
                time_s = seconds(line.get("timestamp"))
                self._call = _Call(place, time_s, Prefix(messages), len(messages))
            self._chat.add(item)
        else:
            if item.get("type") in (None, "message", *RESULTS):
                self._ended = True
            self._chat.add(item)

    def _event(
        self, place: Place, line: Mapping[str, Any], event: Mapping[str, Any]
    ) -> Iterator[Request]:
        kind = event.get("type")
        if kind == "token_count":
            info = mapping(event.get("info"))
            usage = info.get("last_token_usage")
            # The same counts come again when only the rate limits have changed.
            total = _total(mapping(info.get("total_token_usage")))
            if isinstance(usage, dict) and (not any(total) or total != self._counted):
                self._counted = total
                yield from self._answered(_reported(usage))
                self._ended = True
        elif kind == "user_message":
            self._turns.append(max(len(self._chat.messages) - 1, 0))
        elif kind == "error":
            yield from self.end()
            if self._chat.messages:
                messages = self._chat.messages
                call = _Call(place, seconds(line.get("timestamp")), Prefix(messages), len(messages))
                yield self._request(call, Reported(), told(event) or "an error")
        elif kind == "thread_rolled_back":
            yield from self.end()
            count = tokens(event.get("num_turns")) or 0
            if 0 < count <= len(self._turns):
                self._restart(self._chat.messages[: self._turns[-count]], "branch")
                del self._turns[-count:]

    def _compacted(self, payload: Mapping[str, Any]) -> None:
        replacement = payload.get("replacement_history")
        old = self._chat.messages
        head = old[:1] if self._has_system else []
        self._turns = []
        if isinstance(replacement, list):
            self._restart(head, "compaction")
            for item in items(replacement):
                self._chat.add(item)
            return
        # Codex keeps what the user said, and puts the summary behind it.
        kept = [each for each in old[len(head) :] if each["role"] in ("developer", "user")]
        summary = {"role": "user", "content": shown(payload.get("message"))}
        self._restart([*head, *kept, summary], "compaction")

    def _restart(self, messages: list[dict[str, Any]], why: str) -> None:
        """Go on with other messages; the prompts before keep theirs."""
        self._chat = Chat()
        self._chat.messages.extend(messages)
        self._departs = why

    def _answered(self, reported: Reported) -> Iterator[Request]:
        if self._call is not None and self._call.prompt:
            yield self._request(self._call, reported)
        self._call = None

    def _request(self, call: _Call, reported: Reported, error: str | None = None) -> Request:
        replies = self._chat.messages[call.at :]
        departs, self._departs = self._departs, None
        return Request(
            place=call.place,
            messages=call.prompt,
            options=self._options,
            replies=[each for each in replies if each["role"] == "assistant"][:1],
            reported=reported,
            error=error,
            conversation=self._name,
            time_s=call.time_s,
            complete=completeness(system=self._has_system, tools=False),
            unrolled=True,
            departs=departs,
        )


def _total(usage: Mapping[str, Any]) -> tuple[int, ...]:
    """The counts of the session so far."""
    return tuple(tokens(usage.get(key)) or 0 for key in ("input_tokens", "output_tokens"))


def _reported(usage: Mapping[str, Any]) -> Reported:
    """The counts of a call: ``input_tokens`` includes what was cached."""
    return Reported(
        tokens(usage.get("input_tokens")),
        tokens(usage.get("cached_input_tokens")),
        tokens(usage.get("output_tokens")),
    )


def _claims(contents: Contents) -> bool:
    return any(
        isinstance(value, dict)
        and (
            (value.get("type") in _LINES and isinstance(value.get("payload"), dict))
            or value.get("record_type") == "state"
        )
        for value in contents.values
    )


def _read(contents: Contents) -> Iterator[Item]:
    session = _Session()
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, line = each
        try:
            yield from session.add(place, line)
        except Broken as error:
            yield Unreadable(place, str(error))
    yield from session.end()


FORMAT = Format("codex", "a rollout of Codex", _claims, _read)
