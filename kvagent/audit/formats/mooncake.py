"""Is this a trace of Mooncake, and which calls does it have?

One line a request: when, how long, and a hash for each block of 512 tokens of the prompt. No text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.fields import name, tokens
from kvagent.audit.formats.format import Format
from kvagent.audit.transcript import Hashed, Item, Unreadable

_BLOCK = 512


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and "hash_ids" in value and "input_length" in value


def _claims(contents: Contents) -> bool:
    return any(map(_is_call, contents.values))


def hashes(value: Any) -> list[int] | None:
    """The hashes of a prompt's blocks, if they are whole numbers."""
    if isinstance(value, list) and set(map(type, value)) <= {int}:
        return value
    return None


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, line = each
        blocks, length = hashes(line.get("hash_ids")), tokens(line.get("input_length"))
        if blocks is None or length is None:
            yield Unreadable(place, "has no length or no list of hashes")
            continue
        at = tokens(line.get("timestamp"))
        yield Hashed(
            place,
            blocks,
            tokens(line.get("block_size")) or _BLOCK,
            length,
            tokens(line.get("output_length")),
            name(line.get("session_id")),
            None if at is None else at / 1e3,
        )


FORMAT = Format("mooncake", "a trace of Mooncake", _claims, _read)
