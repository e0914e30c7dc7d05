"""How does what a ledger stores lie in an agent's state?

As pages, one for each answered model call. A text that the state's messages have is not there
twice: a page names it. And as pages are much alike, each is compressed with the ones before it in
view. They are strings, so that a state stays what JSON can hold as soon as its messages are.
"""

from __future__ import annotations

import json
import logging
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

logger = logging.getLogger("kvagent")

Item = tuple[str, bytes, bytes]
"""Namespace, key and value."""

# What is written otherwise is another version, which this one does not read.
_VERSION = "1:"
_LENGTHS = struct.Struct(">3I")
_LENGTH = struct.Struct(">I")
# As far as zlib looks back.
_IN_VIEW = 32 * 1024
# Naming a shorter text would hardly be shorter.
_LONG = 200
# A ledger keeps messages as JSON within JSON, and arguments of calls are JSON themselves.
_DEEPEST = 3
# What Python needs around a value.
_OVERHEAD = 300


class PageStore:
    """A store that begins with the pages of a state, and tells what was added since."""

    durable = True

    def __init__(self, pages: Iterable[object] = (), messages: Iterable[BaseMessage] = ()) -> None:
        """``messages`` are the state's. Of pages that cannot be read, nothing is known."""
        self.size = 0
        """Bytes that it holds in memory, roughly."""
        self._values: dict[tuple[str, bytes], dict[bytes, None]] = {}
        self._added: list[Item] = []
        self._in_view = b""
        self._lock = Lock()
        texts = {_digest(text): text for text in _texts(messages)}
        self._named = set(texts)
        for page in pages:
            try:
                data = _unpacked(page, self._in_view)
                items = list(_read(data, texts))
            except (ValueError, struct.error, zlib.error) as error:
                logger.warning("kvagent cannot read a page of an agent's state: %s", error)
                continue
            self._in_view = (self._in_view + data)[-_IN_VIEW:]
            for item in items:
                self._keep(*item)

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        self.batch(namespace, [(key, value) for value in values])

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        with self._lock:
            for key, value in items:
                if self._keep(namespace, key, value):
                    self._added.append((namespace, key, value))

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        with self._lock:
            return tuple(self._values.get((namespace, key), ()))

    def page(self, messages: Iterable[BaseMessage]) -> str | None:
        """What was added since the last page; None where that is nothing.

        ``messages`` are those that the state has, or gets together with the page.
        """
        with self._lock:
            added, self._added = self._added, []
            if not added:
                return None
            new = {_digest(text): text for text in _texts(messages)}
            texts = {name: text for name, text in new.items() if name not in self._named}
            self._named.update(texts)
            data = _written(added, texts)
            page = _packed(data, self._in_view)
            self._in_view = (self._in_view + data)[-_IN_VIEW:]
            return page

    def close(self) -> None:
        """There is nothing to release."""

    def _keep(self, namespace: str, key: bytes, value: bytes) -> bool:
        """Whether a value is new."""
        values = self._values.setdefault((namespace, key), {})
        if value in values:
            return False
        values[bytes(memoryview(value))] = None  # a copy: orjson leaves much room behind its bytes
        self.size += len(value) + _OVERHEAD
        return True


def _packed(data: bytes, in_view: bytes) -> str:
    squeeze = zlib.compressobj(9, zdict=in_view) if in_view else zlib.compressobj(9)
    return _VERSION + b64encode(squeeze.compress(data) + squeeze.flush()).decode()


def _unpacked(page: object, in_view: bytes) -> bytes:
    if not isinstance(page, str) or not page.startswith(_VERSION):
        raise ValueError("it is of another version, or of something else")
    unfold = zlib.decompressobj(zdict=in_view)
    data = unfold.decompress(b64decode(page.removeprefix(_VERSION), validate=True))
    if not unfold.eof:
        raise ValueError("its end is missing")
    return data


def _written(items: Iterable[Item], texts: Mapping[bytes, str]) -> bytes:
    """Items one behind the other, each value cut at the texts that it has: text, name, text."""
    named = [(form, name) for digest, text in texts.items() for form, name in _forms(digest, text)]
    written: list[bytes] = []
    for namespace, key, value in items:
        parts = [value]
        for form, name in named:
            parts = list(_cut(parts, form, name))
        space = namespace.encode("utf-8", "surrogatepass")
        written += [_LENGTHS.pack(len(space), len(key), len(parts)), space, key]
        for part in parts:
            written += [_LENGTH.pack(len(part)), part]
    return b"".join(written)


def _cut(parts: Sequence[bytes], form: bytes, name: bytes) -> Iterator[bytes]:
    """The parts of a value, cut further wherever a text stands; every second one is a name."""
    for at, part in enumerate(parts):
        if at % 2 or len(part) < len(form):
            yield part
            continue
        first, *others = part.split(form)
        yield first
        for other in others:
            yield name
            yield other


def _read(data: bytes, texts: Mapping[bytes, str]) -> Iterator[Item]:
    """The items of a page, but for those with a text that the state has not any more."""
    at = 0

    def taken(length: int) -> bytes:
        nonlocal at
        at += length
        return data[at - length : at]

    while at < len(data):
        space, key, count = _LENGTHS.unpack(taken(_LENGTHS.size))
        address = taken(space).decode("utf-8", "surrogatepass"), taken(key)
        parts = [taken(*_LENGTH.unpack(taken(_LENGTH.size))) for _ in range(count)]
        named = [_form_of(name, texts) for name in parts[1::2]]
        if None not in named:
            parts[1::2] = named  # type: ignore[assignment]  # none of them is None
            yield (*address, b"".join(parts))


def _forms(digest: bytes, text: str) -> Iterator[tuple[bytes, bytes]]:
    """How a text may stand in a value, and the name of that form; the longest first."""
    forms = {_encoded(text): b"\0" + digest}
    for depth in range(1, _DEEPEST + 1):
        text = _escaped(text)
        forms.setdefault(_encoded(text), bytes([depth]) + digest)
    return reversed(forms.items())


def _form_of(name: bytes, texts: Mapping[bytes, str]) -> bytes | None:
    text = texts.get(name[1:])
    if text is None:
        return None
    for _ in range(name[0]):
        text = _escaped(text)
    return _encoded(text)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _digest(text: str) -> bytes:
    return blake2b(_encoded(text), digest_size=16).digest()


def _texts(messages: Iterable[BaseMessage]) -> Iterator[str]:
    """The long texts of messages."""
    for message in messages:
        yield from _texts_in(message.content)
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                yield from _texts_in(call["args"])


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _LONG:
            yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts_in(each)
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for each in value:
            yield from _texts_in(each)
