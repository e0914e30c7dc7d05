"""Where does a request first differ from the one before it, and in what?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from kvagent.audit.sent import Known, Snapshot, tool_name
from kvagent.chat import HEAD_ROLES
from kvagent.events import Cause
from kvagent.prefixcache.seen import common_prefix

Why = Cause | Literal["ids_changed", "template"]
"""As in events. ``ids_changed``: only the ids of calls; ``template``: nothing that was sent, so the
chat template renders old messages otherwise."""

Where = Literal["options", "tools", "message", "prompt"]

# Characters that are shown on each side of the place.
AROUND = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which what was sent before does not stand any more."""

    where: Where
    index: int
    """Which message or tool, from 0, as the request has it; 0 for options."""
    field: str
    """The text within it, as in ``content``, ``content[1].text``,
    ``tool_calls[0].function.arguments``, ``function.parameters.properties.path``; empty where the
    whole of it is another."""
    character: int
    """At which character of that text, from 0; of a prompt: of what the template renders, 0 where
    that is not known."""
    cause: Why
    before: str
    """The text around the place as it was sent before, ``character`` at ``offset``."""
    after: str
    """The text around the place as it is now."""
    offset: int
    """Where in ``before`` and ``after`` the first differing character stands."""

    def __str__(self) -> str:
        field = f" {self.field}" if self.field else ""
        return f"{self.where} {self.index}{field}, character {self.character}"


def differences(old: Snapshot, new: Snapshot) -> tuple[Difference, ...]:
    """The first difference in the options, the system messages, the tools, and the other messages.

    In this order, which is that of most templates; none where the request only grew. To go back and
    continue otherwise is a difference, too; that messages were only left away at the end is none.
    """
    found = []
    if old.options != new.options:
        found.append(_of_options(old.options, new.options))
    heads = old.messages[: old.head], new.messages[: new.head]
    index = _first(*heads)
    if index < max(map(len, heads)):
        found.append(_of_messages(*heads, index, 0))
    if old.tools != new.tools:
        found.append(_of_tools(old.tools, new.tools))
    bodies = old.body, new.body
    index = _first(*bodies)
    if index < min(map(len, bodies)):
        found.append(_of_messages(*bodies, index, new.head))
    return tuple(found)


def _of_options(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> Difference:
    name = next(key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key))
    before, after = (
        side[name].decode(errors="replace") if name in side else "" for side in (old, new)
    )
    return _shown("options", 0, name, "options_changed", before, after)


def _of_tools(old: Sequence[bytes], new: Sequence[bytes]) -> Difference:
    index = next(
        (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]),
        min(len(old), len(new)),
    )
    names = [sorted(map(tool_name, side)) for side in (old, new)]
    if names[0] != names[1]:
        cause: Cause = "tools_changed"
    elif sorted(old) == sorted(new):
        cause = "tools_reordered"
    else:
        cause = "schema_key_order"
    before, after = (side[index] if index < len(side) else b"" for side in (old, new))
    field, one, other = "", before.decode(errors="replace"), after.decode(errors="replace")
    if cause == "tools_changed" and _tool_called(before) == _tool_called(after) != "":
        field, one, other = first_field(orjson.loads(before), orjson.loads(after))
    return _shown("tools", index, field, cause, one, other)


def _tool_called(raw: bytes) -> str:
    function = loaded(raw).get("function")
    return str(function.get("name") or "") if isinstance(function, dict) else ""


def _of_messages(old: Sequence[Known], new: Sequence[Known], at: int, first: int) -> Difference:
    """The difference at a message, which has the number ``first + at`` in its request."""
    if at == len(old) or at == len(new):
        only = (old if at < len(old) else new)[at].raw.decode()
        texts = (only, "") if at < len(old) else ("", only)
        return _shown("message", first + at, "", "system_changed", *texts)
    before, after = old[at], new[at]
    one, other = loaded(before.raw), loaded(after.raw)
    if one and other:
        field, was, now = first_field(one, other)
    else:
        field, was, now = "", before.raw.decode(), after.raw.decode()
    return _shown("message", first + at, field, _cause(old, new, at, field), was, now)


def _cause(old: Sequence[Known], new: Sequence[Known], at: int, field: str) -> Why:
    before, after = old[at], new[at]
    in_head = after.role in HEAD_ROLES
    if before.name == after.name:
        if field.endswith("arguments"):
            return "arguments_reserialised"
        if field.startswith("reasoning"):
            return "reasoning_dropped"
        return "system_reserialised" if in_head else "message_reserialised"
    if before.gist == after.gist:
        return "ids_changed"
    if in_head:
        return "system_changed"
    if _holds(old[at + 1 :], after):
        return "messages_removed"
    if _holds(new[at + 1 :], before):
        return "message_inserted"
    return "message_changed"


def _holds(messages: Sequence[Known], message: Known) -> bool:
    return any(other.gist == message.gist for other in messages)


def _first(old: Sequence[Known], new: Sequence[Known]) -> int:
    """How many messages, from the front, have the same bytes."""
    for at, (before, after) in enumerate(zip(old, new, strict=False)):
        if before is not after and before.raw != after.raw:
            return at
    return min(len(old), len(new))


def first_field(one: Any, other: Any) -> tuple[str, str, str]:
    """The first field that differs, and both texts of it."""
    try:
        for path, before, after in differing_fields(one, other, ""):
            return path, before, after
    except RecursionError:
        pass
    # The same values in another order, or nested too deep.
    return "", _written(one), _written(other)


def differing_fields(one: Any, other: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """All leaves that differ, in the order of the older side."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in (*one, *(key for key in other if key not in one)):
            before, after = one.get(key), other.get(key)
            if before != after:
                yield from differing_fields(before, after, f"{path}.{key}" if path else key)
    elif isinstance(one, list) and isinstance(other, list) and one and other:
        for number, (before, after) in enumerate(zip(one, other, strict=False)):
            if before != after:
                yield from differing_fields(before, after, f"{path}[{number}]")
        if len(one) != len(other):
            at = min(len(one), len(other))
            longer = _written(one[at:]), _written(other[at:])
            yield f"{path}[{at}]", *longer
    else:
        yield path, _written(one), _written(other)


def _written(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode(errors="replace")


def loaded(raw: bytes) -> dict[str, Any]:
    """A message or tool from its bytes; empty where they are none."""
    try:
        value = orjson.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _shown(where: Where, index: int, field: str, cause: Why, before: str, after: str) -> Difference:
    at = common_prefix(before, after)
    start = max(0, at - AROUND)
    end = at + AROUND
    return Difference(
        where, index, field, at, cause, before[start:end], after[start:end], at - start
    )
