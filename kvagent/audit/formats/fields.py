"""What does a field of a transcript hold, if it holds what it should?

Transcripts are written by anybody. These readers give the value if it is what its name says, else
None or nothing, and never raise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kvagent.audit.transcript import Reported
from kvagent.backends.wire import count, milliseconds

# No call has more tokens; beyond it a number is a mistake, and sums of it would be, too.
_MOST_TOKENS = 10**10
# Seconds since 1970 are below this for some thousand years; what is above is in smaller units.
_SECONDS = 1e11
# Content nests by two or three in practice.
_DEEPEST = 20

_NOTHING: dict[str, Any] = {}


def mapping(value: Any) -> dict[str, Any]:
    """The object itself, or an empty one, which is read and never written."""
    return value if isinstance(value, dict) else _NOTHING


def items(value: Any) -> list[Any]:
    """The list itself, or an empty one, which is read and never written."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in items(value) if isinstance(item, dict)]


def string(value: Any) -> str | None:
    """A string that is not empty."""
    return value if isinstance(value, str) and value else None


def inline(media: Any, data: Any) -> str:
    """The URL of a picture that stands in the transcript itself."""
    return f"data:{string(media) or ''};base64,{string(data) or ''}"


def name(value: Any) -> str | None:
    """An id: a string that is not empty, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return string(value)


def first(values: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """The value of the first key that has one."""
    for key in keys:
        value = values.get(key)
        if value is not None:
            return value
    return None


def tokens(value: Any) -> int | None:
    """A count of tokens; some logs write it as a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    number = count(value)
    return number if number is not None and number <= _MOST_TOKENS else None


def total(*values: Any) -> int | None:
    """The sum of those counts that are said; None if none is."""
    said = [number for number in map(tokens, values) if number is not None]
    return sum(said) if said else None


def seconds(value: Any) -> float | None:
    """A time as seconds since 1970: ISO 8601, or a number of s, ms, µs or ns.

    A time without a zone counts as UTC.
    """
    if isinstance(value, str):
        if not value or len(value) > 40:
            return None
        if value.isascii() and value.isdigit():
            value = int(value)
        else:
            try:
                when = datetime.fromisoformat(value)
                return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int) and value > 1 << 64:
        return None
    time = float(value)
    if not math.isfinite(time) or time < 0:
        return None
    while time >= _SECONDS:
        time /= 1e3
    return time


def elapsed(value: Any) -> float | None:
    """A time since something began, in the unit that it has."""
    return milliseconds(value)


def shown(value: Any, depth: int = 0) -> str:
    """The text that content of any kind shows: strings, text parts, parts in parts, in order."""
    if isinstance(value, str):
        return value
    if depth >= _DEEPEST:
        return ""
    if isinstance(value, list):
        return "\n".join(filter(None, (shown(part, depth + 1) for part in value)))
    if isinstance(value, dict):
        inner = first(value, ("text", "content", "output"))
        return "" if inner is None else shown(inner, depth + 1)
    return ""


def told(error: Any) -> str | None:
    """What an error says: its message, or itself."""
    if isinstance(error, dict):
        inner = first(error, ("message", "error", "detail", "type", "code"))
        error = mapping(inner).get("message") if isinstance(inner, dict) else inner
        if error is None:
            return "an error that does not say what it is"
    if error is None or isinstance(error, bool):
        return None
    return str(error) if isinstance(error, int | float) else string(error)


def apart(fresh: Any, cached: Any, written: Any, completion: Any) -> Reported:
    """The counts of a maker that counts cached and written tokens apart from the other input."""
    return Reported(
        prompt_tokens=total(fresh, cached, written) if tokens(fresh) is not None else None,
        cached_tokens=tokens(cached),
        completion_tokens=tokens(completion),
        cache_write_tokens=tokens(written),
    )


def either_way(fresh: Any, cached: Any, written: Any, completion: Any, total: Any) -> Reported:
    """The counts where some makers count what was cached in the input, and some apart.

    The total tells which; without it, input that is smaller than what was cached cannot hold it.
    """
    said, beside = tokens(fresh), (tokens(cached) or 0) + (tokens(written) or 0)
    whole = tokens(total)
    if said is not None and beside:
        if whole is None:
            is_apart = beside > said
        else:
            is_apart = whole == said + beside + (tokens(completion) or 0)
        if is_apart:
            return apart(fresh, cached, written, completion)
    return Reported(said, tokens(cached), tokens(completion), tokens(written))
