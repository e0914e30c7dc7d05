"""What of a request does it take to compare it with the next one?

The bytes of each message and its meaning. Most messages of a request are those of the one before:
as the very same objects if they come from one line or list, else they are looked up by their bytes.
Either way they take no room twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from operator import is_
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from kvagent.audit.formats.fields import items
from kvagent.audit.recent import Recent
from kvagent.audit.transcript import Request
from kvagent.backends import PROMPT_KEYS
from kvagent.chat import HEAD_ROLES, calls_of, text_of
from kvagent.fingerprint import DIGEST, digest, identity, meaning_of_tool, normal_form

# Bytes of messages that are held to be recognised; twice as much in the worst case.
_ROOM = 8 << 20

# The last messages of a request, of which one may have ended the request before.
_NEW = 32

# The name of a tool with a longer definition is not remembered.
_LONG = 20_000

_MARK = "cache_control"

# So long a reply or result is not written twice by chance.
_UNIQUE_CHARS = 16


class Known(NamedTuple):
    """One message: its bytes, and what it is whatever its form."""

    raw: bytes
    """Without marks for the cache."""
    name: bytes
    """Equal for two forms of one message."""
    gist: bytes
    """Equal also where the ids of its calls are others."""
    role: str
    is_own: bool
    """Whether it is an answer or a result that two conversations hardly share by chance."""


class Snapshot(NamedTuple):
    """A request, as far as the next one is compared with it."""

    messages: Sequence[Known]
    head: int
    """How many leading messages are system or developer messages."""
    tools: Sequence[bytes] = ()
    """The bytes of each."""
    options: Mapping[str, bytes] = MappingProxyType({})
    """Of the other keys, those that shape the prompt."""
    links: Sequence[int] = ()
    """For each message of the body, what stands for it and all before it, whatever their form; of
    the head where there is no body."""
    size: int = 0
    """Bytes, about."""

    @property
    def body(self) -> Sequence[Known]:
        """The messages behind the head."""
        return self.messages[self.head :]

    def again(self) -> dict[str, Any]:
        """What shapes its prompt, as the body of a request.

        Raises:
            ValueError: something in it was no JSON.
        """
        body: dict[str, Any] = {name: orjson.loads(raw) for name, raw in self.options.items()}
        body["messages"] = [orjson.loads(message.raw) for message in self.messages]
        if self.tools:
            body["tools"] = [orjson.loads(raw) for raw in self.tools]
        return body


class _Read(NamedTuple):
    """The messages of a request, and what was made of them."""

    messages: Sequence[Mapping[str, Any]]
    known: Sequence[Known] = ()
    head: int = 0
    links: Sequence[int] = ()
    size: int = 0


class Reader:
    """Makes snapshots; what was seen of late is recognised."""

    def __init__(self) -> None:
        self._known: Recent[bytes, Known] = Recent(_ROOM)
        # By the last of their messages, which as an object is no other as long as it is held here.
        # No more than the lines that are held of a log, to which their messages belong.
        self._read: Recent[int, _Read] = Recent(_ROOM >> 4)
        self._tools: Recent[bytes, bytes] = Recent(_ROOM >> 2)
        # By the list as an object, which is held as well.
        self._read_tools: Recent[int, tuple[Any, Sequence[bytes]]] = Recent(_ROOM >> 2)
        self._last_tools: Sequence[bytes] = ()

    def read(self, request: Request) -> Snapshot:
        """The snapshot of a request."""
        read = self._grown(self._begun(request.messages), request.messages)
        options = {
            key: raw_of(request.options[key])
            for key in sorted(PROMPT_KEYS & request.options.keys())
        }
        tools = self._tools_of(request.tools)
        size = read.size + sum(map(len, tools))
        return Snapshot(read.known, read.head, tools, options, read.links, size)

    def _begun(self, messages: Sequence[Mapping[str, Any]]) -> _Read:
        """What was read of the request that these messages continue, if they are its own objects."""
        for at in range(len(messages) - 1, max(-1, len(messages) - 1 - _NEW), -1):
            read = self._read.get(id(messages[at]))
            if read is not None and len(read.messages) == at + 1:
                if all(map(is_, read.messages, messages)):
                    return read
        return _Read(())

    def _grown(self, begun: _Read, messages: Sequence[Mapping[str, Any]]) -> _Read:
        """The same, with more messages behind it."""
        start = len(begun.known)
        if start == len(messages):
            return begun
        fresh = [self.known(message) for message in messages[start:]]
        known = [*begun.known, *fresh]
        head = begun.head
        while head < len(known) and known[head].role in HEAD_ROLES:
            head += 1
        # Where there was no body, the links were those of the head.
        links = list(begun.links) if begun.head < start else []
        link = links[-1] if links else 0
        for message in known[head + len(links) :] or known:
            link = hash((link, message.name))
            links.append(link)
        added = sum([len(message.raw) + 8 for message in fresh])
        read = _Read(messages, known, head, links, begun.size + added)
        self._read.put(id(messages[-1]), read, added + 16 * len(known))
        return read

    def known(self, message: Mapping[str, Any]) -> Known:
        """A message by its bytes."""
        key = raw = _written(message)
        known = self._known.get(key)
        if known is None:
            bare = _unmarked(message)
            if bare is not message:
                message, raw = bare, _written(bare)
            known = _read(raw, message)
            self._known.put(key, known, len(raw) + 200)
        return known

    def _tools_of(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[bytes]:
        if not tools:
            return ()
        read = self._read_tools.get(id(tools))
        if read is None:
            read = tools, self._raws(tools)
            self._read_tools.put(id(tools), read, sum(map(len, read[1])) + 100)
        self._last_tools = read[1]
        return read[1]

    def _raws(self, tools: Sequence[Mapping[str, Any]]) -> Sequence[bytes]:
        raws = []
        for tool in tools:
            raw = _written(tool)
            held = self._tools.get(raw)
            if held is None:
                held = raw
                self._tools.put(held, held, len(held) + 100)
            raws.append(held)
        return self._last_tools if raws == self._last_tools else raws


def raw_of(value: Any) -> bytes:
    """The bytes of a message, also of one that orjson does not write.

    That is one with a number too large, with half a surrogate pair, or nested very deep.
    """
    try:
        return identity(value)
    except (TypeError, orjson.JSONEncodeError):
        pass
    try:
        return json.dumps(value, separators=(",", ":"), default=str).encode()
    except (RecursionError, ValueError):
        return b'"nested too deep"'


def _written(value: Any) -> bytes:
    return bytes(memoryview(raw_of(value)))  # orjson's own holds far more than it shows


def tool_name(raw: bytes) -> bytes:
    """What a tool is, whatever the order of its keys."""
    return _tool_name(raw) if len(raw) < _LONG else _named(raw)


@lru_cache(maxsize=512)
def _tool_name(raw: bytes) -> bytes:
    return _named(raw)


def _named(raw: bytes) -> bytes:
    try:
        return meaning_of_tool(orjson.loads(raw))
    except (ValueError, TypeError, RecursionError):
        return digest(raw)


def _read(raw: bytes, message: Mapping[str, Any]) -> Known:
    try:
        name, gist = _name_and_gist(normal_form(message))
    except (TypeError, ValueError, AttributeError, RecursionError):
        name = gist = digest(raw)
    role = str(message.get("role"))
    own = role in ("assistant", "tool", "function") and (
        bool(calls_of(message)) or len(text_of(message)) >= _UNIQUE_CHARS
    )
    return Known(raw, name, gist, role, own)


def _unmarked(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without the marks at which a maker's cache should end: they move on and are no text."""
    if _MARK in message:
        message = {key: value for key, value in message.items() if key != _MARK}
    content = message.get("content")
    if isinstance(content, list) and any(_is_marked(part) for part in content):
        return {
            **message,
            "content": [
                {key: value for key, value in part.items() if key != _MARK}
                if _is_marked(part)
                else part
                for part in content
            ],
        }
    return message


def _is_marked(part: Any) -> bool:
    return isinstance(part, dict) and _MARK in part


def _name_and_gist(normal: dict[str, Any]) -> tuple[bytes, bytes]:
    """The two of a message in its normal form, which is used up."""
    ids = _ids_taken(normal)
    gist = blake2b(_sorted(normal), digest_size=DIGEST).digest()
    return (gist + _sorted(ids) if ids else gist), gist


def _ids_taken(normal: dict[str, Any]) -> list[Any]:
    """Take the ids of calls out of a message, and what else makes no difference without them."""
    if "tool_call_id" in normal:
        return [normal.pop("tool_call_id")]
    given = items(normal.get("tool_calls"))
    calls = [call for call in given if isinstance(call, dict)]
    if not calls:
        return []
    normal["tool_calls"] = calls
    return [{"id": call.pop("id", None)} if isinstance(call, dict) else call for call in given]


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
