"""Transcripts that something went wrong with: cut off, of wrong types, nested too deeply, ..."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

# Cut-down transcripts keep the shape and lose the length.
_ITEMS = 8
_CHARS = 120
_PLACES = 20_000

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    -(10**400),
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud83d",
    "0" * 25,
    "data: {}\n\n",
    '{"a": [',
    '[{"role": "user"}]',
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": {}},
    {"role": 7},
    {"content": [[[{}]]]},
    [{"role": "assistant", "content": {"a": 1}, "tool_calls": [{"function": 3}]}],
)


def small(value: Any) -> Any:
    """The value with at most so many items in each list, and so many characters in each text."""
    if isinstance(value, dict):
        return {key: small(item) for key, item in value.items()}
    if isinstance(value, list):
        return [small(item) for item in value[:_ITEMS]]
    return value[:_CHARS] if isinstance(value, str) and value[:1] not in ("[", "{") else value


def odd(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(ODD))


def nested(depth: int, rng: random.Random) -> Any:
    value = odd(rng)
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {rng.choice(("a", "content", "messages")): value}
    return value


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every holder and key in a value."""
    found: list[tuple[Any, Any]] = []
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            found.extend((each, key) for key in each)
            todo.extend(each.values())
        elif isinstance(each, list):
            found.extend((each, at) for at in range(len(each)))
            todo.extend(each)
    return found


def wrong(value: Any, rng: random.Random) -> Any:
    """The value with some things in it that do not belong there."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        where = places(value)[:_PLACES]
        if not where:
            return odd(rng)
        holder, key = rng.choice(where)
        match rng.randrange(7):
            case 0 | 1 | 2:
                holder[key] = odd(rng)
            case 3:
                del holder[key]
            case 4:
                other, at = rng.choice(where)
                holder[key] = copy.deepcopy(other[at]) if at in _keys(other) else None
            case 5:
                holder[key] = nested(rng.choice((5, 30, 80)), rng)
            case 6 if isinstance(holder, list):
                holder.extend(copy.deepcopy(holder[key]) for _ in range(rng.choice((1, 3))))
            case _ if isinstance(holder, dict):
                holder[rng.choice(("type", "role", "id", "parentId", "uuid", "x"))] = odd(rng)
    return value


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def written(value: Any, rng: random.Random) -> bytes:
    """JSON of it: escaped or not, over many lines or one."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 1)))
    return text.encode("utf-8", "surrogatepass")


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes, cut off, with bytes changed, or with a piece twice or gone."""
    if not data:
        return data
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    match rng.randrange(7):
        case 0:
            return data[:start]
        case 1:
            return data[start:]
        case 2:
            return data[:start] + data[end:]
        case 3:
            return data[:end] + data[start:]
        case 4:
            made = bytearray(data)
            for _ in range(rng.choice((1, 4, 50))):
                made[rng.randrange(len(made))] = rng.randrange(256)
            return bytes(made)
        case 5:
            return data[:start] + rng.choice((b"[", b"{", b'{"a":')) * 5000 + data[start:]
        case _:
            key = rng.choice((b'"messages":', b'"role":', b'"type":', b'"content":'))
            return data.replace(key, key + rng.choice((b"1,", b'"x",', b"null,")) + key, 3)


def mutant(values: list[Any], rng: random.Random) -> bytes:
    """A file of these values, one a line, with something wrong."""
    lines = []
    for value in values:
        each = wrong(value, rng) if rng.random() < 0.6 else value
        try:
            lines.append(written(each, rng))
        except (ValueError, RecursionError):
            lines.append(b"{}")
    if rng.random() < 0.2:
        rng.shuffle(lines)
    data = b"\n".join(lines)
    return damaged(data, rng) if rng.random() < 0.5 else data
