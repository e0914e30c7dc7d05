"""How do heads, entries and replies lie in a store?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache

import orjson

from kvagent.entry import REPLIES, Entry, Facts, Head, Reply, Swept
from kvagent.pricing import Rent
from kvagent.revision import Revision

logger = logging.getLogger("kvagent")


def entry_record(entry: Entry, head: bytes) -> bytes:
    """An entry without its head, which many share, and without what followed."""
    raw = {} if entry.raw is entry.sent else {"raw": entry.raw.decode()}
    return orjson.dumps(
        {
            "role": entry.role,
            "sent": entry.sent.decode(),
            **raw,
            "head": head.hex(),
            "revision": entry.revision.key.hex() if entry.revision else "",
            "told": {str(place): value for place, value in entry.told.items()},
            "noted": entry.noted,
            "session": entry.session,
            "tokens": entry.tokens,
            "own": entry.own,
        }
    )


def reply_record(reply: Reply) -> bytes:
    """A reply as JSON: the message, and beside it what the caller has not seen, if there is some."""
    if not reply.before:
        return orjson.dumps(reply.message)
    return orjson.dumps(
        {"message": reply.message, "before": reply.before, "meaning": reply.meaning.hex()}
    )


def _read_reply(record: bytes) -> Reply:
    data = orjson.loads(record)
    if "before" not in data:
        return Reply.of(data)
    return Reply(bytes.fromhex(data["meaning"]), data["message"], tuple(data["before"]))


def read_replies(records: Sequence[bytes]) -> tuple[Reply, ...]:
    """The newest replies of those stored; one that cannot be read is left out."""
    replies: list[Reply] = []
    for record in records[-REPLIES:]:
        try:
            replies.append(_read_reply(record))
        except (AttributeError, LookupError, TypeError, ValueError):
            logger.debug("a reply in the store cannot be read; it is left out", exc_info=True)
    return tuple(replies)


def read_facts(record: bytes) -> Facts:
    """The facts that were stored as JSON; errors of any kind for what is none."""
    data = orjson.loads(record)
    return Facts(
        **{
            **data,
            "growths": tuple(data["growths"]),
            "rent": Rent(**data.get("rent", {})),
            "swept": Swept(**data.get("swept", {})),
        }
    )


@lru_cache(maxsize=64)
def head_record(head: Head) -> bytes:
    """A head as JSON."""
    return orjson.dumps(
        {
            "system": [message.decode() for message in head.system],
            "tools": None if head.tools is None else head.tools.decode(),
            "meanings": [m.hex() for m in head.meanings],
            "tool_forms": [(m.hex(), form.decode()) for m, form in head.tool_forms.items()],
            "options": {name: value.decode() for name, value in head.options.items()},
            "hidden": sorted(head.hidden),
            "switches": head.switches.decode(),
            "opening": head.opening.decode(),
        }
    )


@lru_cache(maxsize=64)
def read_head(record: bytes) -> Head:
    """The head that was stored as JSON; errors of any kind for what is none."""
    data = orjson.loads(record)
    return Head(
        system=tuple(message.encode() for message in data["system"]),
        tools=None if data["tools"] is None else data["tools"].encode(),
        meanings=tuple(bytes.fromhex(m) for m in data["meanings"]),
        tool_forms={bytes.fromhex(m): form.encode() for m, form in data["tool_forms"]},
        options={name: value.encode() for name, value in data["options"].items()},
        hidden=frozenset(data["hidden"]),
        switches=data.get("switches", "").encode(),
        opening=data.get("opening", "").encode(),
    )


@lru_cache(maxsize=64)
def revision_record(revision: Revision) -> bytes:
    """A revision as JSON."""
    return orjson.dumps(
        {
            "forms": {str(depth): form.decode() for depth, form in revision.forms.items()},
            "tiers": revision.tiers,
        }
    )


@lru_cache(maxsize=64)
def read_revision(record: bytes) -> Revision:
    """The revision that was stored as JSON; errors of any kind for what is none."""
    from kvagent.compaction.tiers import Tier

    data = orjson.loads(record)
    return Revision(
        {int(depth): form.encode() for depth, form in data["forms"].items()},
        tuple(Tier(**tier) for tier in data["tiers"]),
    )
