"""Did the prompt of each request begin with the prompt before it? For the tests of your agent.

    def test_my_agent_keeps_its_prefix() -> None:
        recorder = Recorder()
        client = kvagent.wrap(OpenAI(...), on_event=recorder)
        run_my_agent(client)
        recorder.assert_prefix_kept()

Needs no test framework: what does not hold raises ``AssertionError``. Requests are bodies of
``/chat/completions``, as bytes, as text, or as the mapping they stand for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kvagent.backends import PROMPT_KEYS
from kvagent.engine import Engine
from kvagent.events import Event, PrefixBroken
from kvagent.fingerprint import same_render
from kvagent.policy import Policy

__all__ = ["Body", "Break", "Recorder", "assert_prefix_kept", "prefix_break", "rewritten"]

Body = bytes | str | Mapping[str, Any]

# So much is shown on either side of the first character that differs.
_AROUND = 40


@dataclass(frozen=True, slots=True)
class Break:
    """Where the prompt of a request leaves the prompt before it."""

    place: str
    """What differs: ``messages[3]``, ``tools``, or another key of the body."""
    before: str
    """It as it was, as JSON; empty where there was none."""
    after: str
    """It as it is now; empty where there is none."""

    @property
    def at(self) -> int:
        """The first character that differs between ``before`` and ``after``."""
        pairs = zip(self.before, self.after, strict=False)
        short = min(len(self.before), len(self.after))
        return next((at for at, (old, new) in enumerate(pairs) if old != new), short)

    def __str__(self) -> str:
        start = max(0, self.at - _AROUND)
        shown = [_excerpt(text, start, self.at + _AROUND) for text in (self.before, self.after)]
        caret = " " * (self.at - start + (1 if start else 0))
        return (
            f"{self.place} differs from character {self.at} on\n"
            f"  before: {shown[0]}\n   after: {shown[1]}\n          {caret}^"
        )


def prefix_break(before: Body, after: Body) -> Break | None:
    """Where ``after`` leaves the prompt of ``before``; None if it only adds messages to it.

    Looks at what a server renders: the options that shape a prompt, tools in their order, and the
    texts of the messages, arguments of calls byte for byte. ``ValueError`` for what is no request.
    """
    return _break(_read(before, "the request before"), _read(after, "the request after"))


def assert_prefix_kept(bodies: Iterable[Body]) -> None:
    """Raise ``AssertionError`` unless each request only adds messages to the one before it.

    Give the requests of one conversation that never goes back. ``ValueError`` names the request,
    counted from 1, that is none.
    """
    last: Mapping[str, Any] | None = None
    for number, body in enumerate(bodies, 1):
        request = _read(body, f"request {number}")
        found = None if last is None else _break(last, request)
        if found is not None:
            raise AssertionError(
                f"request {number} does not begin with the prompt of request {number - 1}: {found}"
            )
        last = request


def rewritten(bodies: Iterable[Body], policy: Policy | None = None) -> list[dict[str, Any]]:
    """What a wrapped client would have sent for these requests, one after the other.

    A new engine takes each for answered. ``kvagent.chat.Doubt`` for a request that it would let
    out as it came.
    """
    engine = Engine(policy)
    raws = (
        body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else _dump(body)
        for body in bodies
    )
    return [orjson.loads(engine.rewrite(raw)) for raw in raws]


@dataclass(slots=True)
class Recorder:
    """Keeps what happened: give it as ``on_event``, and to ``record`` the bodies that are sent.

    With httpx: ``event_hooks={"request": [lambda request: recorder.record(request.read())]}``, or
    in the handler of a ``MockTransport``.
    """

    events: list[Event] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def record(self, body: Body) -> None:
        """Keep the body of a request."""
        self.bodies.append(body)

    @property
    def breaks(self) -> list[PrefixBroken]:
        """The breaks that kvagent could not prevent, in the order they happened."""
        return [event for event in self.events if isinstance(event, PrefixBroken)]

    def assert_prefix_kept(self) -> None:
        """Raise ``AssertionError`` if a prefix broke, by the events or between the bodies."""
        if self.breaks:
            told = "".join(
                f"\n  {event.cause} at message {event.index} of conversation {event.conversation}"
                f", {event.lost_tokens} tokens lost{event.detail and ': ' + event.detail}"
                for event in self.breaks
            )
            raise AssertionError(f"the prefix did not stay:{told}")
        assert_prefix_kept(self.bodies)


def _break(old: Mapping[str, Any], new: Mapping[str, Any]) -> Break | None:
    for key in sorted(PROMPT_KEYS & (old.keys() | new.keys())):
        if old.get(key) != new.get(key):
            return Break(key, _text(old.get(key)), _text(new.get(key)))
    tools = [_text(body.get("tools") or None) for body in (old, new)]
    if tools[0] != tools[1]:
        return Break("tools", *tools)
    messages = new["messages"]
    for index, message in enumerate(old["messages"]):
        place = f"messages[{index}]"
        if index >= len(messages):
            return Break(place, _text(message), "")
        if not same_render(message, messages[index]):
            return Break(place, _text(message), _text(messages[index]))
    return None


def _read(body: Body, name: str) -> Mapping[str, Any]:
    if isinstance(body, Mapping):
        request: Any = body
    else:
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"{name} is not JSON: {error}") from error
    messages = request.get("messages") if isinstance(request, Mapping) else None
    if not isinstance(messages, list | tuple):
        raise ValueError(f"{name} has no list of messages: give the body of a chat request")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise ValueError(f"messages[{index}] of {name} is no object")
    return request  # type: ignore[no-any-return]


def _dump(value: Any) -> bytes:
    return _text(value).encode()


def _text(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _excerpt(text: str, start: int, end: int) -> str:
    if not text:
        return "(nothing)"
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
