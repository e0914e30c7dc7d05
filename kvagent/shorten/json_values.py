"""Which values does a JSON text hold, in the source's own spelling of numbers?

A number stands for the characters that the source has, so that 1.10, 1e5 and twenty digits come
out as they went in.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

Number = orjson.Fragment

_BLANKS = re.compile(r"[ \t\r\n]*")


class _NotPlain(ValueError):
    """An object has a key twice: a dict would lose one."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _NotPlain
    return result


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=Number,
    parse_float=Number,
    parse_constant=Number,
)


def documents(text: str) -> list[Any] | None:
    """The JSON values of which `text` consists: one, or many (NDJSON, concatenated).

    None if there is anything else beside them, and for what cannot be written again as it is: keys
    that stand twice in an object, lone surrogates, or more than some 250 levels. Only objects and
    arrays are looked for.
    """
    values: list[Any] = []
    position = _end_of_blanks(text, 0)
    try:
        while position < len(text):
            if text[position] not in "{[":
                return None
            value, end = _DECODER.raw_decode(text, position)
            values.append(value)
            position = _end_of_blanks(text, end)
        orjson.dumps(values)
    except (ValueError, RecursionError, TypeError):
        return None
    return values or None


def _end_of_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match is not None else position


def spelled(value: Any) -> str:
    """`value` as JSON without blanks."""
    return orjson.dumps(value).decode()


def number(value: Any) -> float | None:
    """What a number amounts to; None for anything else."""
    return float(spelled(value)) if isinstance(value, Number) else None
