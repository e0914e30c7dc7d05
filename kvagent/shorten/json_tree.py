"""How does one JSON value get short, so that its keys stand and only long values are cut?"""

from __future__ import annotations

from typing import Any

from kvagent.shorten.blob import fold
from kvagent.shorten.clip import clip, shares
from kvagent.shorten.json_values import spelled

_KEYS_STAND = 2  # so many levels keep all their keys
_LEAST = 24  # characters in which a value says anything


def fitted(value: Any, room: int, depth: int = 0) -> tuple[str, int]:
    """`value` as JSON in some `room` characters, and how many of its values stand whole.

    What is short stays as it is; what is long shares the rest. The keys of the first levels stand
    even where the room does not hold them.
    """
    whole = spelled(value)
    if len(whole) <= room:
        return whole, count_values(value)
    if isinstance(value, dict) and value:
        return _fitted_object(value, room, depth)
    if isinstance(value, list) and value:
        return _fitted_array(value, room, depth)
    return cut(value, room), 0


def cut(value: Any, room: int) -> str:
    """A string, or the spelling of any other value, as a JSON string of at most `room` characters
    or the shortest that there is."""
    text = fold(value if isinstance(value, str) else spelled(value))
    inside = room - 2
    while True:
        result = spelled(clip(text, max(1, inside)))
        if len(result) <= room or inside <= 1:
            return result
        inside -= max(1, len(result) - room)  # what is escaped takes more than one character


def count_values(value: Any) -> int:
    """The strings, numbers and literals in a value; an empty object or array counts as one."""
    count = 0
    stack = [value]
    while stack:
        top = stack.pop()
        if isinstance(top, dict) and top:
            stack += top.values()
        elif isinstance(top, list) and top:
            stack += top
        else:
            count += 1
    return count


def _fitted_object(value: dict[str, Any], room: int, depth: int) -> tuple[str, int]:
    keys = list(map(spelled, value))
    rest = room - sum(map(len, keys)) - 2 * len(keys) - 1
    sizes = [len(spelled(part)) for part in value.values()]
    if depth >= _KEYS_STAND and rest < sum(min(size, _LEAST) for size in sizes):
        return cut(f"{{{len(keys)} keys: {', '.join(value)}}}", room), 0
    parts = [
        fitted(part, share, depth + 1)
        for part, share in zip(value.values(), shares(sizes, rest), strict=True)
    ]
    texts = (f"{key}:{text}" for key, (text, _) in zip(keys, parts, strict=True))
    return f"{{{','.join(texts)}}}", sum(kept for _, kept in parts)


def _fitted_array(value: list[Any], room: int, depth: int) -> tuple[str, int]:
    """All elements where each can say something, else the first and the last ones."""
    sizes = [len(spelled(part)) for part in value]
    least = sum(min(size, _LEAST) + 1 for size in sizes) + 1
    if least <= room:
        given = shares(sizes, room - len(value) - 1)
        parts = [fitted(part, share, depth + 1) for part, share in zip(value, given, strict=True)]
        return f"[{','.join(text for text, _ in parts)}]", sum(kept for _, kept in parts)
    left_out = f'"… {len(value)} items …"'
    room -= len(left_out) + 3
    ends = (value[0], value[-1]) if len(value) > 1 else (value[0],)
    if room < _LEAST * len(ends):
        return f'"[{len(value)} items]"', 0
    tail, kept = fitted(value[-1], min(room // 3, max(sizes[-1], 1)), depth + 1)
    room -= len(tail)
    heads: list[str] = []
    for part, size in zip(value[:-1], sizes, strict=False):
        if heads and size + 1 > room:
            break
        head, stands = fitted(part, room, depth + 1)
        room -= len(head) + 1
        kept += stands
        heads.append(head)
    missing = len(value) - 1 - len(heads)
    middle = [f'"… {missing} items …"'] if missing else []
    return f"[{','.join([*heads, *middle, tail])}]", kept
