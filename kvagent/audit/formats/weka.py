"""Is this a trace of WEKA's coding agents, and which calls does it have?

One document a session: when, how long, and a hash for each full block of the prompt. No text. A
sub-agent has a list of its own in the place of a request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.fields import elapsed, items, mapping, name, objects, tokens
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.mooncake import hashes
from kvagent.audit.transcript import Hashed, Item, Place, Unreadable

_DEEPEST = 20


def _is_trace(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and "block_size" in value
        and any("hash_ids" in each or "requests" in each for each in objects(value.get("requests")))
    )


def _claims(contents: Contents) -> bool:
    return any(map(_is_trace, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        size = tokens(value.get("block_size"))
        if not size:
            yield Unreadable(place, "has no block_size")
            continue
        yield from _calls(place, value, size, name(value.get("id")))


def _calls(
    place: Place, holder: Mapping[str, Any], size: int, conversation: str | None, depth: int = 0
) -> Iterator[Item]:
    for at, call in enumerate(items(holder.get("requests"))):
        where = Place(place.file, place.line, f"{place.path}.requests[{at}]")
        call = mapping(call)
        inner = call.get("requests")
        if isinstance(inner, list) and depth < _DEEPEST:
            agent = name(call.get("agent_id")) or name(call.get("id")) or str(at)
            yield from _calls(where, call, size, f"{conversation}/{agent}", depth + 1)
            continue
        blocks, length = hashes(call.get("hash_ids")), tokens(call.get("in"))
        if blocks is None or length is None:
            yield Unreadable(where, "has no length or no list of hashes")
            continue
        time = call.get("t")
        yield Hashed(
            where,
            blocks,
            size,
            length,
            tokens(call.get("out")),
            conversation,
            elapsed(time),
        )


FORMAT = Format("weka", "a trace of WEKA", _claims, _read)
