"""Which tools are defined in every request and never called?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kvagent.audit.figures import several
from kvagent.audit.recent import Recent
from kvagent.audit.rule import Rule, Sighting, Spot
from kvagent.audit.rules.places import spot_of
from kvagent.audit.turns import Turn
from kvagent.chat import calls_of

# In fewer calls, and in fewer conversations, a tool that no one needed may well be needed one day.
_CALLS = 50
_CONVERSATIONS = 3
# Or in a single conversation with so many.
_MANY_CALLS = 200
# What definitions take until it is worth a word.
_TOKENS = 200
_TOOLS = 5_000
_NAMED = 12

DEAD_TOOLS = Rule(
    "KVA503",
    "dead-tools",
    "note",
    "context",
    "Tools are defined in every request and never called.",
    "The definitions stand in the head of every prompt. They are cached, but they take room in the "
    "window and in the KV cache, and the more tools a model is offered, the more often it takes the "
    "wrong one. A log shows only what was needed so far: a tool for a rare case may be right.",
    "Leave out what this agent never calls, from the first request on: taking a tool away within a "
    "conversation breaks the prefix at its head.",
    "tools = [tool for tool in tools if tool['function']['name'] in NEEDED]",
)

RULES = (DEAD_TOOLS,)


@dataclass(slots=True)
class _Tool:
    name: str
    tokens: int
    first: Spot
    conversations: int = 0
    last_conversation: int = -1
    calls: int = 0
    """Calls, of whatever tool, in requests that define it."""


@dataclass(slots=True)
class _Offer:
    """The tools of the last request, and what was seen since requests define just these."""

    raws: Sequence[bytes]
    tools: Sequence[_Tool]
    conversation: int
    """Of the last request."""
    conversations: int = 0
    """How often another conversation came."""
    calls: int = 0


class UnusedTools:
    """Counts definitions against calls over the whole log."""

    def __init__(self) -> None:
        self._tools: dict[str, _Tool] = {}
        self._offer: _Offer | None = None
        self._called: Recent[str, int] = Recent(_TOOLS)
        self._names: Recent[tuple[bytes, ...], tuple[str, ...]] = Recent(100)

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """Nothing yet: in the end it shows what was called."""
        request, placed, calls = turn.request, turn.placed, 0
        for message in (*request.messages[placed.common :], *request.replies):
            for name in _names_called(message):
                calls += 1
                if self._called.get(name) is None:
                    self._called.put(name, calls)
        tools, offer = placed.snapshot.tools, self._offer
        if tools:
            if offer is None or offer.raws is not tools:
                offer = self._next(turn)
            offer.calls += calls
            if offer.conversation != placed.conversation:
                offer.conversations += 1
                offer.conversation = placed.conversation
        return ()

    def end(self) -> Iterable[Sighting]:
        """Which tools nobody called, although others were called often."""
        self._settle()
        dead = [
            tool
            for tool in self._tools.values()
            if self._called.get(tool.name) is None
            and (
                (tool.calls >= _CALLS and tool.conversations >= _CONVERSATIONS)
                or tool.calls >= _MANY_CALLS
            )
        ]
        tokens = sum(tool.tokens for tool in dead)
        if tokens < _TOKENS:
            return
        names = ", ".join(tool.name for tool in dead[:_NAMED])
        more = f" and {len(dead) - _NAMED} more" if len(dead) > _NAMED else ""
        calls = min(tool.calls for tool in dead)
        said = (
            f"{len(dead)} of {several(len(self._tools), 'tool')} "
            f"{'was' if len(dead) == 1 else 'were'} never called in {calls:,} calls: {names}{more}. "
            f"Their definitions take about {tokens:,} tokens of every prompt."
        )
        for tool in dead:
            yield Sighting(DEAD_TOOLS, None, tool.first, said, everywhere=True)

    def _next(self, turn: Turn) -> _Offer:
        """The tools of this request, which are not those of the one before."""
        self._settle()
        tools = [self._tools[name] for name in self._defined(turn)]
        for tool in tools:
            if tool.last_conversation != turn.conversation:
                tool.conversations += 1
        self._offer = _Offer(turn.placed.snapshot.tools, tools, turn.conversation)
        return self._offer

    def _settle(self) -> None:
        """Count for each tool what was seen while it was offered."""
        offer, self._offer = self._offer, None
        if offer is not None:
            for tool in offer.tools:
                tool.calls += offer.calls
                tool.conversations += offer.conversations
                tool.last_conversation = offer.conversation

    def _defined(self, turn: Turn) -> tuple[str, ...]:
        """The names of the request's tools, each with an entry."""
        raws = tuple(turn.placed.snapshot.tools)
        names = self._names.get(raws)
        if names is None:
            found = (
                name
                for number, raw in enumerate(raws)
                if (name := _name_of(raw)) and self._is_entered(turn, name, number, raw)
            )
            names = tuple(dict.fromkeys(found))
            self._names.put(raws, names)
        return names

    def _is_entered(self, turn: Turn, name: str, number: int, raw: bytes) -> bool:
        if name not in self._tools and len(self._tools) < _TOOLS:
            snapshot = turn.placed.snapshot
            head = sum(map(len, snapshot.tools))
            head += sum(len(message.raw) for message in snapshot.messages[: snapshot.head])
            tokens = turn.parts.head * len(raw) // max(1, head)
            self._tools[name] = _Tool(name, tokens, spot_of(turn, tokens=tokens, tool=number))
        return name in self._tools


def _name_of(raw: bytes) -> str:
    try:
        tool = orjson.loads(raw)
    except ValueError:
        return ""
    function = tool.get("function") if isinstance(tool, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _names_called(message: Mapping[str, Any]) -> list[str]:
    called = [call.get("function") for call in calls_of(message)]
    if "function_call" in message:
        called.append(message["function_call"])
    return [
        each["name"]
        for each in called
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    ]
