"""What does a piece of JSON say, also where it is not quite JSON?

Logs are written by many hands: half of a surrogate pair where a text was cut, NaN, bytes that are
not UTF-8, raw control characters. What orjson refuses for such a reason is read leniently.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson


class Broken(ValueError):
    """Something is not what it should be; the text says what it is, as in "is not JSON: ..."."""


# An escaped surrogate pair, which is left alone; half of one; any other escape.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."
)
_LONGEST_INTEGER = 300
# Reading leniently takes long; what is larger is hardly a record with a character amiss.
_LENIENT = 1 << 24
# A list takes 3 bytes in JSON, and 64 in memory: this many at most in what is large.
_LARGE, _MOST = 1 << 24, 1 << 23


def parsed(data: bytes) -> Any:
    """The value of a line or a document. Raises ``Broken``."""
    if len(data) > _LARGE and data.count(b"[") + data.count(b"{") > _MOST:
        raise Broken("holds more values than can be read at once")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if len(data) > _LENIENT:
            raise Broken(f"is not JSON: {error.msg}") from None
        return _leniently(data.decode("utf-8", "replace"))


def parsed_text(text: str) -> Any:
    """The value of a text. Raises ``Broken``."""
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        if len(text) > _LENIENT:
            raise Broken("is not JSON") from None
        return _leniently(text.encode("utf-8", "replace").decode())


def dumped(value: Any) -> str:
    """The JSON text of a value that came out of JSON. Raises ``Broken``."""
    try:
        return orjson.dumps(value).decode()
    except (orjson.JSONEncodeError, UnicodeDecodeError):
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise Broken("is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise Broken(f"is no JSON value: {error}") from None


def _leniently(text: str) -> Any:
    text = text.removeprefix("\ufeff")
    if "\\u" in text:
        text = _ESCAPE.sub(_whole, text)
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Broken(
            f"is not JSON: {error.msg.removesuffix(' starting at')} at character {error.pos + 1}"
        ) from None
    except RecursionError:
        raise Broken("is nested too deeply") from None


def _whole(escape: re.Match[str]) -> str:
    return "\\ufffd" if escape["half"] else escape[0]


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)


def _no_number(_: str) -> None:
    """NaN and the infinities: JSON has no such value."""


_DECODER = json.JSONDecoder(strict=False, parse_int=_integer, parse_constant=_no_number)
