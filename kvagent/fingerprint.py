r"""When are two messages the same bytes, and when do they merely mean the same?

The only place where messages become bytes. *Identity* is the compact JSON that goes on the wire.
*Meaning* survives what frameworks do to a message between two turns: null against absent keys,
a string against one text part, whitespace, ``\u`` escapes and key order inside ``arguments``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

DIGEST = 16

# Keys that a reply carries and that frameworks drop or add at will; no chat template shows them,
# or (reasoning) the reply as generated decides about them, not the copy that comes back.
_REPLY_ONLY = frozenset(
    (
        "annotations",
        "audio",
        "index",
        "parsed",
        "provider_specific_fields",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
    )
)

# A dict, which nearly every object is, is known far sooner than another mapping.
_OBJECT = (dict, Mapping)

# JSON Schema keywords whose arrays are sets.
_SCHEMA_SETS = frozenset(("enum", "required", "type"))

# orjson reads longer integers, and longer fractions, as the nearest float.
_LONG_NUMBER = re.compile(r"\d{16}")
_SIXTEEN_ZEROS = b"0" * 16
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")


def identity(message: Any) -> bytes:
    """The bytes of a message (or a tool, or a list of tools) as they go on the wire."""
    return orjson.dumps(message)


def digest(*parts: bytes) -> bytes:
    """A 16-byte hash of the parts, each counted with its length so that borders matter."""
    h = blake2b(digest_size=DIGEST)
    for part in parts:
        h.update(len(part).to_bytes(8, "little"))
        h.update(part)
    return h.digest()


def link(parent: bytes, meaning: bytes) -> bytes:
    """One step of the chained prefix hash: it names a message and everything before it."""
    return blake2b(parent + meaning, digest_size=DIGEST).digest()


def meaning(message: Mapping[str, Any]) -> bytes:
    """A 16-byte digest that is equal for two forms of one message."""
    normal = orjson.dumps(normal_form(message), option=orjson.OPT_SORT_KEYS)
    return blake2b(normal, digest_size=DIGEST).digest()


def same_render(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a server would be given the very same texts by both (arguments byte for byte)."""
    return normal_form(one, parsed=False) == normal_form(other, parsed=False)


def rendered(message: Mapping[str, Any]) -> bytes:
    """Equal for two forms of one message of which a server is given the very same texts."""
    return orjson.dumps(normal_form(message, parsed=False), option=orjson.OPT_SORT_KEYS)


def normal_form(message: Mapping[str, Any], *, parsed: bool = True) -> dict[str, Any]:
    """The message without what may differ between two of its forms; ``parsed`` opens JSON texts."""
    normal: dict[str, Any] = {}
    for key, value in message.items():
        if key in _REPLY_ONLY or (not value and (value is None or value == "" or value == [])):
            continue
        if key == "content":
            value = _content(value)
            if parsed and isinstance(value, str) and message.get("role") == "tool":
                value = _json_text(value)
        elif key == "tool_calls" and isinstance(value, list):
            value = [_call(call, parsed) for call in value]
        elif key == "function_call" and isinstance(value, _OBJECT):
            value = _function(value, parsed)
        if value != "":
            normal[key] = value
    return normal


def meaning_of_tool(tool: Any) -> bytes:
    """Equal for a tool whose keys come in another order, or with null where none was."""
    return digest(orjson.dumps(_tool(tool), option=orjson.OPT_SORT_KEYS))


def _content(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if len(value) == 1 and isinstance(value[0], _OBJECT) and value[0].get("type") == "text":
        part = value[0]
        if isinstance(part.get("text"), str) and all(
            key in ("type", "text") or extra is None for key, extra in part.items()
        ):
            return part["text"]
    return value


def _call(call: Any, parsed: bool) -> Any:
    if not isinstance(call, _OBJECT):
        return call
    normal = {k: v for k, v in call.items() if v is not None and k not in ("index", "type")}
    if call.get("type") not in (None, "function"):
        normal["type"] = call["type"]
    function = call.get("function")
    if isinstance(function, _OBJECT):
        normal["function"] = _function(function, parsed)
    return normal


def _function(function: Mapping[str, Any], parsed: bool) -> dict[str, Any]:
    normal = {k: v for k, v in function.items() if v is not None}
    arguments = normal.get("arguments")
    if parsed and isinstance(arguments, str):
        # Both servers read missing arguments as an empty object.
        normal["arguments"] = _json_text(arguments) if arguments.strip() else {}
    return normal


def _json_text(text: str) -> Any:
    """The value that a JSON object or array stands for; any other text as it is."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        if _has_long_number(text):
            return json.loads(text, parse_float=_verbatim, parse_int=_verbatim)
        return orjson.loads(text)
    except (ValueError, RecursionError):
        return text


def _has_long_number(text: str) -> bool:
    if text.isascii():
        # As the pattern has it, which takes twenty times as long for a long text.
        return _SIXTEEN_ZEROS in text.encode("ascii").translate(_DIGITS_AS_ZEROS)
    return _LONG_NUMBER.search(text) is not None


def _verbatim(number: str) -> str:
    return "number:" + number


def _tool(tool: Any) -> Any:
    if not isinstance(tool, _OBJECT):
        return tool
    normal = {k: v for k, v in tool.items() if v is not None}
    function = tool.get("function")
    if isinstance(function, _OBJECT):
        normal["function"] = {
            k: _schema(v) for k, v in function.items() if v is not None and v != ""
        }
    return normal


def _schema(value: Any, keyword: str = "") -> Any:
    if isinstance(value, _OBJECT):
        return {k: _schema(v, k) for k, v in value.items()}
    if isinstance(value, list):
        if keyword in _SCHEMA_SETS and all(isinstance(item, str) for item in value):
            return sorted(value)
        return [_schema(item) for item in value]
    return value
