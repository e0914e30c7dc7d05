"""What does the head of a request say, apart from text that is volatile?"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from kvagent.chat import ChatRequest
from kvagent.entry import Head
from kvagent.fingerprint import digest, identity, meaning, meaning_of_tool, rendered
from kvagent.volatile import PLACEHOLDER, Line, Reader

_VIEWS = 256


@dataclass(frozen=True, slots=True)
class Place:
    """Where volatile text stands: message, text part, line, and span of the line."""

    message: int
    part: int
    line: int
    span: int
    at_sight: bool
    private: bool


@dataclass(frozen=True, slots=True, eq=False)
class HeadView:
    """Tools and leading system messages as an agent sent them, read."""

    messages: tuple[Mapping[str, Any], ...]
    raws: tuple[bytes, ...]
    lines: tuple[tuple[tuple[Line, ...], ...], ...]
    """Per message and text part, the lines."""
    places: tuple[Place, ...]
    values: tuple[str, ...]
    meanings: tuple[bytes, ...]
    """Per message, its meaning without volatile text."""
    skeleton: bytes
    """The meaning of them all."""
    tools: bytes | None
    came_tools: bytes | None
    """The tools as the agent sent them: ``tools`` may have one of kvagent's own."""
    tool_forms: Mapping[bytes, bytes]
    """Identity of each tool by its meaning, in the order sent."""
    options: Mapping[str, bytes]
    pieces: tuple[int, ...]
    """Hashes of what a server is shown of each system message, and of the agent's tools."""
    _systems: dict[frozenset[int], tuple[bytes, ...]] = field(default_factory=dict)

    @property
    def has_own_tool(self) -> bool:
        """Whether kvagent's own tool stands behind the agent's."""
        return self.tools != self.came_tools

    def system(self, hidden: frozenset[int]) -> tuple[bytes, ...]:
        """The messages with a placeholder at each of the ``hidden`` places."""
        if not hidden:
            return self.raws
        system = self._systems.get(hidden)
        if system is None:
            system = self._systems[hidden] = self._written(hidden)
        return system

    def _written(self, hidden: frozenset[int]) -> tuple[bytes, ...]:
        return tuple(
            self._hiding(index, hidden)
            if any(self.places[place].message == index for place in hidden)
            else raw
            for index, raw in enumerate(self.raws)
        )

    def notes(self, places: frozenset[int]) -> list[str]:
        """The lines, each once, that tell the values at these places."""
        by_line: dict[tuple[int, int, int], set[int]] = {}
        for number in sorted(places):
            place = self.places[number]
            by_line.setdefault((place.message, place.part, place.line), set()).add(place.span)
        return [
            self.lines[message][part][line].note(spans)
            for (message, part, line), spans in by_line.items()
        ]

    def as_sent(self, hidden: frozenset[int] = frozenset()) -> Head:
        """The head that this view stands for when it is sent for the first time."""
        return Head(
            self.system(hidden),
            self.tools,
            self.meanings,
            self.tool_forms,
            self.options,
            hidden,
        )

    def _hiding(self, index: int, hidden: frozenset[int]) -> bytes:
        spans: dict[tuple[int, int], set[int]] = {}
        for number in hidden:
            place = self.places[number]
            if place.message == index:
                spans.setdefault((place.part, place.line), set()).add(place.span)
        texts = [
            "\n".join(
                line.replaced(spans.get((part, at), set()), PLACEHOLDER)
                for at, line in enumerate(lines)
            )
            for part, lines in enumerate(self.lines[index])
        ]
        return identity(_with_texts(self.messages[index], texts))


class HeadReader:
    """Reads heads; one that came before is not read again."""

    def __init__(
        self,
        patterns: Sequence[str],
        option_keys: frozenset[str],
        own_tool: Mapping[str, Any] | None = None,
    ) -> None:
        """``own_tool`` is put behind the agent's tools, where there are some."""
        self._reader = Reader(patterns)
        self._own_tool = identity(own_tool) if own_tool is not None else b""
        self._own_name = own_tool["function"]["name"] if own_tool is not None else None
        self._option_keys = option_keys
        self._views: OrderedDict[tuple[object, ...], HeadView] = OrderedDict()
        self._tool_meaning = lru_cache(maxsize=4096)(_tool_meaning)

    def view(self, request: ChatRequest) -> HeadView:
        """The head of a request."""
        raws = tuple(identity(message) for message in request.messages[: request.head_size])
        tool_raws = tuple(identity(tool) for tool in request.tools)
        came = len(tool_raws)
        if came and self._own_tool and not any(map(self._is_own, request.tools)):
            tool_raws += (self._own_tool,)
        options = {
            key: orjson.dumps(request.body[key], option=orjson.OPT_SORT_KEYS)
            for key in self._option_keys & request.body.keys()
        }
        name = (raws, tool_raws, request.body.get("tools") is None, tuple(sorted(options.items())))
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = self._read(request, raws, tool_raws, came, options)
            while len(self._views) > _VIEWS:
                try:
                    self._views.popitem(last=False)
                except KeyError:  # another thread was quicker
                    break
        return view

    def _read(
        self,
        request: ChatRequest,
        raws: tuple[bytes, ...],
        tool_raws: tuple[bytes, ...],
        came: int,
        options: Mapping[str, bytes],
    ) -> HeadView:
        messages = tuple(request.messages[: request.head_size])
        lines = tuple(
            tuple(tuple(self._reader.lines(text)) for text in _texts(message))
            for message in messages
        )
        places = tuple(
            Place(m, p, at, number, span.at_sight, span.private)
            for m, parts in enumerate(lines)
            for p, part in enumerate(parts)
            for at, line in enumerate(part)
            for number, span in enumerate(line.spans)
        )
        meanings = tuple(
            meaning(
                _with_texts(message, ["\n".join(li.skeleton() for li in part) for part in parts])
            )
            for message, parts in zip(messages, lines, strict=True)
        )
        no_tools = request.body.get("tools") is None
        came_tools = None if no_tools else b"[" + b",".join(tool_raws[:came]) + b"]"
        return HeadView(
            messages=messages,
            raws=raws,
            lines=lines,
            places=places,
            values=tuple(
                value for parts in lines for part in parts for line in part for value in line.values
            ),
            meanings=meanings,
            skeleton=digest(*meanings),
            tools=None if no_tools else b"[" + b",".join(tool_raws) + b"]",
            came_tools=came_tools,
            tool_forms=self._tool_forms(tool_raws),
            options=options,
            pieces=(*(hash(rendered(message)) for message in messages), hash(came_tools)),
        )

    def _is_own(self, tool: Mapping[str, Any]) -> bool:
        function = tool.get("function")
        return isinstance(function, Mapping) and function.get("name") == self._own_name

    def _tool_forms(self, tools: Sequence[bytes]) -> dict[bytes, bytes]:
        forms: dict[bytes, bytes] = {}
        for raw in tools:
            name = self._tool_meaning(raw)
            while name in forms:  # the same tool twice stays twice
                name += b"+"
            forms[name] = raw
        return forms


def _tool_meaning(raw: bytes) -> bytes:
    return meaning_of_tool(orjson.loads(raw))


def _texts(message: Mapping[str, Any]) -> list[str]:
    """All texts of a message, with empty ones so that each part keeps its place."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [
            part["text"] if isinstance(part, Mapping) and isinstance(part.get("text"), str) else ""
            for part in content
        ]
    return []


def _with_texts(message: Mapping[str, Any], texts: Sequence[str]) -> Mapping[str, Any]:
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": texts[0]}
    if isinstance(content, list):
        return {
            **message,
            "content": [
                {**part, "text": text}
                if isinstance(part, Mapping) and isinstance(part.get("text"), str)
                else part
                for part, text in zip(content, texts, strict=True)
            ],
        }
    return message
