"""Which values does a JSON text hold, in the source's own spelling of numbers?

A number stands for the characters that the source has, so that 1.10, 1e5 and twenty digits come
out as they went in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

Number = orjson.Fragment

_MOST_BESIDE = 400  # characters of a status before the output, or of a remark behind it
_BEGIN = re.compile(r"(?:\A|\n)[ \t\r\n]*(?=[{\[])")
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


@dataclass(frozen=True, slots=True)
class Documents:
    """The JSON values of a text in order, and the few lines that a tool put before and behind."""

    before: str
    values: Sequence[Any]
    after: str


def documents(text: str) -> Documents | None:
    """The objects and arrays of which `text` consists: one, or many (NDJSON, concatenated).

    None if there is more beside them than a few lines, and for what cannot be written again as it
    is: keys that stand twice in an object, lone surrogates, or more than some 250 levels.
    """
    begin = _BEGIN.search(text, 0, _MOST_BESIDE)
    if begin is None:
        return None
    values: list[Any] = []
    position = begin.end()
    try:
        while position < len(text) and text[position] in "{[":
            value, end = _DECODER.raw_decode(text, position)
            values.append(value)
            position = _end_of_blanks(text, end)
        orjson.dumps(values)
    except (ValueError, RecursionError, TypeError):
        return None
    if len(text) - position > _MOST_BESIDE or not values:
        return None
    return Documents(text[: begin.start()].rstrip("\n"), values, text[position:].rstrip("\n"))


def _end_of_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match is not None else position


def spelled(value: Any) -> str:
    """`value` as JSON without blanks."""
    return orjson.dumps(value).decode()


def number(value: Any) -> float | None:
    """What a number amounts to; None for anything else."""
    return float(spelled(value)) if isinstance(value, Number) else None
