"""What became of the messages that were sent before?

They are sent again, or some of them were changed, or a summary stands in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from kvagent.audit.changes.moved import is_part_moved
from kvagent.audit.difference import loaded
from kvagent.audit.sent import Known, Snapshot
from kvagent.chat import text_of
from kvagent.prefixcache.seen import common_prefix

Became = Literal["grown", "again", "changed", "compacted"]

# A summary is at least this long.
SUMMARY_CHARS = 200
_SUMMARY = re.compile(
    r"summar|compact|condens|continued from|so far|earlier (?:conversation|messages|context)|"
    r"previous (?:conversation|messages|context)",
    re.IGNORECASE,
)
# How a text begins that is surely one: a task may speak of a summary, too.
_SURELY = re.compile(
    r"\A\W{0,9}(?:(?:context|conversation|session)\W{1,9})?(?:summary|checkpoint)\b|"
    r"(?:continued|continuing) from (?:a|an|one|the) |conversation (?:so far|history)|"
    r"(?:summary|recap) of (?:the|this|our|my|what)\b",
    re.IGNORECASE,
)


def became(old: Snapshot, new: Snapshot) -> Became | None:
    """What became of the history, if something of it is sent again behind the first difference."""
    before, after = old.body or old.messages, new.body or new.messages
    at = 0
    for one, other in zip(before, after, strict=False):
        if one.name != other.name:
            break
        at += 1
    rest, tail = before[at:], after[at:]
    if not rest:
        return "grown" if tail else "again"
    if not tail:
        return None
    kept = {message.gist for message in rest if message.is_own or len(message.raw) > 100}
    again = sum(message.gist in kept for message in tail)
    if _is_summary(tail, rest, kept):
        return "compacted"
    if again or is_same_message(rest[0], tail[0]) or is_part_moved(rest[0], tail[0], tail[1:]):
        return "changed"
    return None


def _is_summary(tail: Sequence[Known], rest: Sequence[Known], kept: set[bytes]) -> bool:
    """Whether the first messages of the tail stand for more than they are."""
    first = next((at for at, message in enumerate(tail) if message.gist in kept), None)
    if first is not None:
        sent = {message.gist for message in tail[first:]}
        gone, tail = [message for message in rest if message.gist not in sent], tail[:first]
        if len(tail) >= len(gone):
            return False
    elif len(tail) >= len(rest) or sum(len(m.raw) for m in tail) >= sum(len(m.raw) for m in rest):
        return False
    return any(
        len(text := message_text(message)) >= SUMMARY_CHARS and _SUMMARY.search(text) is not None
        for message in tail[:2]
        if message.role != "tool"
    )


def tells_summary(text: str) -> bool:
    """Whether a text says that it stands for messages that went before."""
    return _SURELY.search(text) is not None


def is_same_message(old: Known, new: Known) -> bool:
    """Whether it is one message with something in it changed."""
    if old.role != new.role:
        return False
    if old.role == "tool":
        ids = (loaded(message.raw).get("tool_call_id") for message in (old, new))
        one_id, other_id = ids
        return bool(one_id) and one_id == other_id
    one, other = message_text(old), message_text(new)
    shorter = min(len(one), len(other))
    if shorter < 40:
        return False
    return common_prefix(one, other) + common_prefix(one[::-1], other[::-1]) >= 0.6 * max(
        len(one), len(other)
    )


def message_text(message: Known) -> str:
    """What a message says; empty where it says nothing."""
    return text_of(loaded(message.raw))
