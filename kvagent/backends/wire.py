"""What can be trusted in a value that a server sent?

Proxies, old builds and error pages answer with anything. These readers give the value if it is
what its name says, else ``None`` (or an empty mapping), and never raise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from kvagent.backends.values import Fetched

_NOTHING: Mapping[str, Any] = {}
_LONGEST_REASON = 300  # characters; an error may quote the whole request


def count(value: object) -> int | None:
    """A whole number, 0 or more; 27.0 counts (some proxies write numbers so), True does not."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and value >= 0 else None


def size(value: object) -> int | None:
    """A `count` that is not 0: a window or a block of 0 tokens means "not known"."""
    return count(value) or None


def milliseconds(value: object) -> float | None:
    """A finite time, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        time = float(value)
    except OverflowError:
        return None
    return time if math.isfinite(time) and time >= 0 else None


def text(value: object) -> str | None:
    """A string that is not empty."""
    return value if isinstance(value, str) and value else None


def mapping(value: object) -> Mapping[str, Any]:
    """The mapping itself, or an empty one."""
    return value if isinstance(value, Mapping) else _NOTHING


def json_object(answer: Fetched) -> Mapping[str, Any]:
    """The JSON object of a good answer (2xx); empty for an error, a web page, another type."""
    if not 200 <= answer.status < 300:
        return _NOTHING
    try:
        return mapping(orjson.loads(answer.body))
    except orjson.JSONDecodeError:
        return _NOTHING


def reason(answer: Fetched) -> str:
    """What an answer that is no good says of itself, in one line; its status if nothing."""
    try:
        said = mapping(orjson.loads(answer.body))
    except orjson.JSONDecodeError:
        said = _NOTHING
    error = said.get("error")
    messages = (mapping(error).get("message"), error, said.get("message"), said.get("detail"))
    told = next(filter(None, map(text, messages)), None) or answer.body.decode(errors="replace")
    return " ".join(told.split())[:_LONGEST_REASON] or f"status {answer.status}"


def json_list(answer: Fetched) -> list[Any]:
    """The JSON list of a good answer; empty for everything else."""
    if not 200 <= answer.status < 300:
        return []
    try:
        value = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return []
    return value if isinstance(value, list) else []


_SAMPLE = re.compile(
    rb"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{[^\n]*\})? +([-+0-9.eE]+|NaN|[+-]Inf)", re.MULTILINE
)


def metrics(answer: Fetched) -> Mapping[str, float]:
    """Prometheus' text: name → value, summed over labels (the engines of one server)."""
    values: dict[str, float] = {}
    if answer.status == 200:
        for name, number in _SAMPLE.findall(answer.body):
            try:
                value = float(number)
            except ValueError:
                continue
            if math.isfinite(value):
                key = name.decode()
                values[key] = values.get(key, 0.0) + value
    return values


def whole(value: float | None) -> int | None:
    """A metric's value as a count."""
    return None if value is None else count(float(round(value)))
