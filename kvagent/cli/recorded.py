"""Which bytes of a recorded line are the chat request?

A line is the request's body, or an object that holds it under ``body`` or ``request`` beside keys
of the recorder's own. Only the span of the body is ever replaced.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

_SPACE = re.compile(r"[ \t\r\n]*")
_AROUND = b" \t\r\n"
_NAMES = ("body", "request")


class Broken(ValueError):
    """The line holds no chat request; the text says why."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A line of a recording, its request's body apart from what stands around it."""

    before: bytes
    body: bytes
    after: bytes

    @classmethod
    def read(cls, line: bytes) -> Recorded | None:
        """Read a line with its line end; None where it is blank. Raises ``Broken``."""
        start = len(codecs.BOM_UTF8) if line.startswith(codecs.BOM_UTF8) else 0
        core = line[start:].strip(_AROUND)
        if not core:
            return None
        start = line.index(core, start)
        end = start + len(core)
        text, value = _parsed(core)
        if not isinstance(value, dict):
            raise Broken(f"is {_kind(value)}, not an object")
        name = next((name for name in _NAMES if name in value), None)
        if "messages" not in value and name is not None:
            value = value[name]
            if not isinstance(value, dict):
                raise Broken(f'has {_kind(value)} as "{name}", not an object')
            first, last = _span(text, name)
            end = start + len(text[:last].encode())
            start += len(text[:first].encode())
        messages = value.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Broken('is not a chat request: it has no list of "messages"')
        return cls(line[:start], line[start:end], line[end:])

    def with_body(self, body: bytes) -> bytes:
        """The line with another body, everything around it as it was."""
        return self.before + body + self.after


def _refuse(constant: str) -> NoReturn:
    raise Broken(f"is not JSON: it holds {constant}")


class _Number(str):
    """A number as it is written: JSON allows more digits than Python reads."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)


def _parsed(core: bytes) -> tuple[str, Any]:
    try:
        text = core.decode()
    except UnicodeDecodeError as error:
        raise Broken(f"is not UTF-8: byte 0x{core[error.start]:02x} at {error.start + 1}") from None
    try:
        return text, _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Broken(f"is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise Broken("is nested too deeply") from None


def _span(text: str, wanted: str) -> tuple[int, int]:
    """Where the value of a key begins and ends in the text of an object, which is known to be JSON.

    Of a key that stands twice the last value counts, as in every reader of JSON.
    """
    found = (0, 0)
    at = text.index("{") + 1
    while True:
        at = _past_space(text, at)
        if text[at] == "}":
            return found
        if text[at] == ",":
            at = _past_space(text, at + 1)
        key, at = _DECODER.raw_decode(text, at)
        start = _past_space(text, text.index(":", at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        if key == wanted:
            found = (start, at)


def _past_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, _Number):
        return "a number"
    return "a text" if isinstance(value, str) else "a list"
