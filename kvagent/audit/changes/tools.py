"""What became of a request's tools?

Both servers write a tool's own keys in an order of theirs, so only the order of the tools and that
of the keys in their parameters can be the client's fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from kvagent.audit.difference import first_field, loaded
from kvagent.audit.sent import tool_name

What = Literal["added", "removed", "redefined", "reordered", "key_order"]


@dataclass(frozen=True, slots=True)
class Change:
    """What became of some tools, at the first of them."""

    what: What
    names: Sequence[str]
    """Of all tools concerned, in the order of the request; of those reordered, all."""
    index: int
    """Which tool of the request, from 0; of one removed, the one that stands in its place."""
    field: str
    """The text within that tool; empty where it is the whole of it, as compact JSON."""
    before: str
    """That text as it was sent before; of tools reordered, with the names of those behind it."""
    after: str


def changes(old: Sequence[bytes], new: Sequence[bytes]) -> list[Change]:
    """What became of the tools, given as the bytes of each."""
    return list(_changes(_by_name(old), _by_name(new)))


def name_of(raw: bytes) -> str:
    """What a tool is called; empty where it does not say."""
    function = loaded(raw).get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def lasting(raw: bytes) -> bytes:
    """Equal for a tool whose keys come in another order."""
    return tool_name(raw)


def _by_name(tools: Sequence[bytes]) -> dict[tuple[str, int], bytes]:
    """Each under its name and which one of that name it is."""
    named: dict[tuple[str, int], bytes] = {}
    seen: Counter[str] = Counter()
    for raw in tools:
        name = name_of(raw)
        named[name, seen[name]] = raw
        seen[name] += 1
    return named


def _changes(
    old: Mapping[tuple[str, int], bytes], new: Mapping[tuple[str, int], bytes]
) -> Iterator[Change]:
    places = {key: at for at, key in enumerate(new)}
    added = [key for key in new if key not in old]
    if added:
        first = added[0]
        after = new[first].decode(errors="replace")
        yield Change("added", _names(added), places[first], "", "", after)
    removed = [key for key in old if key not in new]
    if removed:
        at = list(old).index(removed[0])
        before = old[removed[0]].decode(errors="replace")
        yield Change("removed", _names(removed), min(at, len(new)), "", before, "")
    same = [key for key in new if key in old]
    others = [key for key in same if tool_name(old[key]) != tool_name(new[key])]
    if others:
        yield _within("redefined", others, others[0], old, new, places)
    written = [
        key
        for key in same
        if key not in others and old[key] != new[key] and _order(old[key]) != _order(new[key])
    ]
    if written:
        yield _within("key_order", written, written[0], old, new, places)
    was = [key for key in old if key in new]
    if was != same:
        at = next(at for at, pair in enumerate(zip(was, same, strict=True)) if pair[0] != pair[1])
        yield Change(
            "reordered",
            _names(same),
            places[same[at]],
            "function.name",
            ", ".join(_names(was[at:])),
            ", ".join(_names(same[at:])),
        )


def _within(
    what: What,
    keys: Sequence[tuple[str, int]],
    first: tuple[str, int],
    old: Mapping[tuple[str, int], bytes],
    new: Mapping[tuple[str, int], bytes],
    places: Mapping[tuple[str, int], int],
) -> Change:
    """The first place in a tool that is the same one."""
    one, other = loaded(old[first]), loaded(new[first])
    if what == "redefined":
        field, before, after = first_field(one, other)
    else:
        field, before, after = _reordered(one, other)
    return Change(what, _names(keys), places[first], field, before, after)


def _names(keys: Sequence[tuple[str, int]]) -> list[str]:
    return [name or "a tool without a name" for name, _ in keys]


def _order(raw: bytes) -> bytes:
    """What a server keeps of the order of a tool's keys: that within its parameters."""
    tool = loaded(raw)
    function = tool.get("function")
    if not isinstance(function, dict):
        return raw
    return orjson.dumps(_without_nulls(function.get("parameters")))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: value for key, value in value.items() if value is not None}
    return value


def _reordered(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, str, str]:
    """The outermost object or list whose order is another, as compact JSON."""
    path = "function.parameters"
    functions = one.get("function"), other.get("function")
    before, after = (
        side.get("parameters") if isinstance(side, dict) else None for side in functions
    )
    while True:
        inner = _first_inside(before, after)
        if inner is None:
            break
        step, before, after = inner
        path += step
    return path, orjson.dumps(before).decode(), orjson.dumps(after).decode()


def _first_inside(before: Any, after: Any) -> tuple[str, Any, Any] | None:
    """The first value inside that differs, unless the keys around it differ in their order."""
    if isinstance(before, dict) and isinstance(after, dict) and list(before) == list(after):
        for key in before:
            one, other = before[key], after[key]
            if orjson.dumps(one) != orjson.dumps(other):
                return f".{key}", one, other
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            if isinstance(one, dict | list) and orjson.dumps(one) != orjson.dumps(other):
                return f"[{at}]", one, other
    return None
