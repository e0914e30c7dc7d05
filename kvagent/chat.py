"""What does a chat request or reply hold, and how is a request changed without touching the rest?

Views on wire JSON: plain dicts, read and never written. Unknown keys survive because only the
spans of ``messages`` and ``tools`` are ever replaced in the original bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from kvagent.fingerprint import identity

HEAD_ROLES = ("system", "developer")


class Doubt(Exception):
    """The request cannot be read or rewritten with certainty: the original goes out."""


@dataclass(slots=True)
class ChatRequest:
    """A chat completion request: its bytes, its JSON, and where its head ends."""

    raw: bytes
    body: Mapping[str, Any]
    head_size: int
    """How many leading messages are system or developer messages."""
    fresh: Sequence[Mapping[str, Any]]
    """The messages from number ``known`` on."""
    known: int = 0
    """How many messages need not be read, because a request before began with the same bytes."""
    _all: Sequence[Mapping[str, Any]] | None = None

    @classmethod
    def parse(cls, raw: bytes) -> ChatRequest:
        """Read a request body; ``Doubt`` says why it is none that kvagent can change safely."""
        try:
            body = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise Doubt(f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise Doubt(f"the body is a JSON {type(body).__name__}, not an object")
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Doubt("the body has no list of messages")
        _check(messages, 0)
        head_size = 0
        while head_size < len(messages) and messages[head_size]["role"] in HEAD_ROLES:
            head_size += 1
        tools = body.get("tools")
        if tools is not None and not (
            isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)
        ):
            raise Doubt("tools is not a list of objects")
        return cls(raw, body, head_size, messages[head_size:], head_size, messages)

    @classmethod
    def resume(
        cls, raw: bytes, added: bytes, known: int, body: Mapping[str, Any], head_size: int
    ) -> ChatRequest:
        """A request that only adds messages (a JSON list of them) to one that was read before."""
        try:
            fresh = orjson.loads(added)
        except orjson.JSONDecodeError as error:
            raise Doubt(f"the body is not JSON: {error}") from error
        _check(fresh, known)
        return cls(raw, body, head_size, fresh, known)

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """All messages."""
        if self._all is None:
            self._all = orjson.loads(self.raw)["messages"]
        return self._all

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The tools, none where there are none."""
        return self.body.get("tools") or ()

    @property
    def model(self) -> str:
        """The model's name, or the empty string."""
        model = self.body.get("model")
        return model if isinstance(model, str) else ""

    def rewritten(
        self, incoming: Iterable[bytes], messages: Iterable[bytes], tools: bytes | None
    ) -> bytes:
        """The body with other messages (and tools), every other byte as it came.

        ``incoming`` are the identities of the messages as they came, ``tools`` the bytes of the
        new list, or None to leave it.
        """
        replaced = {"messages": b"[" + b",".join(messages) + b"]"}
        spans = {"messages": b"[" + b",".join(incoming) + b"]"}
        if tools is not None:
            replaced["tools"] = tools
            spans["tools"] = identity(self.body["tools"])
        raw = self.raw
        for key, value in replaced.items():
            name = b'"' + key.encode() + b'":'
            at = raw.find(name + spans[key])
            if at < 0 or raw.find(name + spans[key], at + 1) >= 0:
                return self._redumped(replaced)  # or another key of the body holds the same
            at += len(name)
            raw = raw[:at] + value + raw[at + len(spans[key]) :]
        return raw

    def _redumped(self, replaced: Mapping[str, bytes]) -> bytes:
        """For bodies that are not compact JSON: written anew, if nothing can be lost by it."""
        body = json.loads(self.raw)
        # Compared as text: 2**64 equals the float that orjson makes of it.
        if any(repr(body[key]) != repr(self.body[key]) for key in replaced):
            raise Doubt("the body holds numbers that do not survive being written again")
        try:
            items = [
                json.dumps(key, ensure_ascii=False).encode()
                + b":"
                + (replaced[key] if key in replaced else _dumped(value))
                for key, value in body.items()
            ]
            for key in replaced:
                _dumped(body[key])
        except ValueError as error:
            raise Doubt(f"the body holds what JSON cannot: {error}") from error
        return b"{" + b",".join(items) + b"}"


def _check(messages: Sequence[Any], first: int) -> None:
    for index, message in enumerate(messages, first):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Doubt(f"message {index} is not an object with a role")
        calls = message.get("tool_calls")
        if calls and not (isinstance(calls, list) and all(isinstance(c, dict) for c in calls)):
            raise Doubt(f"tool_calls of message {index} is not a list of objects")


def _dumped(value: Any) -> bytes:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()  # fmt: skip


def texts_of(message: Mapping[str, Any]) -> list[str]:
    """The texts that a model reads in a message's content, part by part."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    if isinstance(content, list):
        return [
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        ]
    return []


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message; both servers join parts with a newline."""
    return "\n".join(texts_of(message))


# About what a picture of a million pixels takes; what it really is depends on the model.
_IMAGE_CHARS = 4_000


def shown(message: Mapping[str, Any]) -> str:
    """What a chat template shows of a message, roughly: its texts, and its calls.

    A picture counts as so many blanks.
    """
    parts = texts_of(message)
    content = message.get("content")
    if isinstance(content, list) and len(content) > len(parts):
        parts.append(" a" * (_IMAGE_CHARS // 4) * (len(content) - len(parts)))
    for call in calls_of(message):
        function = call.get("function")
        if isinstance(function, dict):
            parts.append(f"{function.get('name')} {function.get('arguments')}")
    return "\n".join(parts)


def calls_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tool calls of a message; what a server or an agent wrongly put there is left out."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return []
    return [call for call in calls if isinstance(call, dict)]


def with_text_appended(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    """A copy of the message whose content ends with ``text``."""
    content = message.get("content")
    if content is None or content == "":
        return {**message, "content": text.lstrip("\n")}
    if isinstance(content, str):
        return {**message, "content": content + text}
    if isinstance(content, list):
        return {**message, "content": [*content, {"type": "text", "text": text.lstrip("\n")}]}
    raise Doubt(f"content of a {message.get('role')} message is a {type(content).__name__}")


@dataclass(slots=True)
class ChatReply:
    """What a server answered: the generated messages (one a choice), and the counts."""

    messages: tuple[dict[str, Any], ...] = ()
    counts: dict[str, Any] = field(default_factory=dict)
    """The reply's ``usage``, ``timings`` and ``model``, as the server sent them."""
    complete: bool = False
    """False when the stream was cut off, abandoned, or ended in an error."""
    error: Any = None

    @classmethod
    def parse(cls, body: bytes) -> ChatReply:
        """Read an unstreamed reply; what cannot be read is an incomplete reply."""
        try:
            reply = orjson.loads(body)
        except orjson.JSONDecodeError:
            return cls()
        if not isinstance(reply, dict):
            return cls()
        choices = reply.get("choices")
        messages = tuple(
            choice["message"]
            for choice in (choices if isinstance(choices, list) else ())
            if isinstance(choice, dict) and isinstance(choice.get("message"), dict)
        )
        error = reply.get("error")
        return cls(messages, _counts(reply), bool(messages) and not error, error)

    @classmethod
    def parse_stream(cls, stream: bytes) -> ChatReply:
        """Reassemble a reply from the bytes of its server-sent events."""
        reply = cls()
        choices: dict[int, _Choice] = {}
        for data in _events(stream):
            if data == b"[DONE]":
                reply.complete = True
                break
            try:
                chunk = orjson.loads(data)
            except orjson.JSONDecodeError:
                continue
            if not isinstance(chunk, dict):
                continue
            if chunk.get("error"):
                reply.error = chunk["error"]
            reply.counts.update(_counts(chunk))
            for part in chunk.get("choices") or ():
                if isinstance(part, dict):
                    index = part.get("index") or 0
                    choices.setdefault(index, _Choice()).add(part)
        reply.messages = tuple(choices[index].message() for index in sorted(choices))
        finished = bool(choices) and all(choice.finished for choice in choices.values())
        reply.complete = finished and reply.error is None
        return reply


def _counts(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {key: reply[key] for key in ("usage", "timings", "model") if reply.get(key) is not None}


def _events(stream: bytes) -> Iterable[bytes]:
    for event in stream.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
        if lines:
            yield b"\n".join(lines)


@dataclass(slots=True)
class _Choice:
    """One choice of a streamed reply while its deltas come in."""

    role: str = "assistant"
    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finished: bool = False

    def add(self, part: Mapping[str, Any]) -> None:
        self.finished = self.finished or part.get("finish_reason") is not None
        delta = part.get("delta")
        if not isinstance(delta, dict):
            return
        for key, value in delta.items():
            if key == "role" and isinstance(value, str):
                self.role = value
            elif key == "tool_calls" and isinstance(value, list):
                for call in value:
                    if isinstance(call, dict):
                        self._add_call(call)
            elif isinstance(value, str):
                self.texts.setdefault(key, []).append(value)

    def _add_call(self, part: Mapping[str, Any]) -> None:
        index = part.get("index")
        if not isinstance(index, int):
            index = len(self.calls)
        call = self.calls.setdefault(
            index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        )
        if part.get("id"):
            call["id"] = part["id"]
        if part.get("type"):
            call["type"] = part["type"]
        function = part.get("function")
        if isinstance(function, dict):
            for key in ("name", "arguments"):
                if isinstance(function.get(key), str):
                    call["function"][key] += function[key]

    def message(self) -> dict[str, Any]:
        texts = {key: "".join(values) for key, values in self.texts.items()}
        message: dict[str, Any] = {
            "role": self.role,
            "content": texts.pop("content", "") or None,
            **texts,
        }
        if self.calls:
            message["tool_calls"] = [self.calls[index] for index in sorted(self.calls)]
        return message
