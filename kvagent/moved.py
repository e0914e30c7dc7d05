"""Did the agent move text from an old message to a newer one?

Many agents put a reminder at the end of the newest message, and take it out of the one before. The
old message stays as it was sent: what is repeated costs less than what must be prefilled again.
Unless it is the larger part: retrieved documents that leave with each question cost more than the
answer behind them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from kvagent.chat import text_of
from kvagent.entry import Entry
from kvagent.fingerprint import meaning
from kvagent.ledger import Tree
from kvagent.prefixcache.seen import common_prefix
from kvagent.volatile import NOTE

NOTE_ROLES = ("user", "tool")
_WHOLE_ROLES = ("user", "system", "developer")

# Shorter text is not taken for something that an agent moved.
_BLOCK = 16

# So many bytes are held whatever that spares: a reminder, a clock.
_SMALL = 500

# Of what is spared, so much may be held. Where a carried token costs a tenth of a prefilled one each
# turn, that pays for forty turns.
_MOST = 0.5

# Moved text is looked for in so many messages, the newest.
_LATER = 8

# How many of the messages that once followed are looked at for moved text, newest first.
_SIBLINGS = 64

_TAGGED = re.compile(r"\s*<([\w-]+)[^>]*>.*?</\1>\s*", re.DOTALL)
_NOTES = re.compile(r"\n+" + re.escape(NOTE))


def held(
    tree: Tree, entries: Sequence[Entry], messages: Sequence[Mapping[str, Any]], at: int
) -> tuple[tuple[Entry, ...], int]:
    """What stood at ``at`` if the agent moved it, or a part of it, to a later message.

    The entries, empty if it moved nothing, and how many messages of the request they stand for:
    1, or 0 for a whole message moved (never the first: that would be another conversation's).
    """
    later = [m for m in messages[at + 1 :][-_LATER:] if m["role"] != "assistant"]
    if not later:
        return (), 0
    message = messages[at]
    for entry in entries:
        for siblings in tree.followers(entry)[: -_SIBLINGS - 1 : -1]:
            old = siblings[-1]
            if old.role in NOTE_ROLES and old.role == message["role"]:
                if _text_moved(old, message, later):
                    return siblings, 1
            if (
                old.role in _WHOLE_ROLES
                and entry.parent is not None
                and _was_next(tree, old, message)
            ):
                if _is_later(old, later):
                    return siblings, 0
    return (), 0


def pays(
    old: Entry, messages: Sequence[Mapping[str, Any]], raws: Sequence[bytes], at: int, taken: int
) -> bool:
    """Whether to hold ``old``, found with ``taken`` at ``at``, rather than to let the text go.

    What is held is carried in every prompt to come. What is spared, once, is the prefill of all
    that the server has behind the first byte that differs, up to the newest answer.
    """
    carried = len(old.raw) - (len(raws[at]) if taken else 0)
    if carried <= _SMALL:
        return True
    behind = [message["role"] for message in messages[at:]]
    answered = max((n for n, role in enumerate(behind, at) if role == "assistant"), default=at)
    same = common_prefix(old.raw, raws[at]) if taken else 0
    spared = sum(map(len, raws[at : answered + 1])) - same
    return carried <= _MOST * spared


def _was_next(tree: Tree, old: Entry, message: Mapping[str, Any]) -> bool:
    """Whether the message came right after an entry before."""
    if message["role"] == "assistant" and old.facts is not None and not old.replies:
        return True  # what was answered is not known
    name = meaning(message)
    return bool(tree.children(old, name)) or any(reply.meaning == name for reply in old.replies)


def _is_later(old: Entry, later: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a whole message comes again later, perhaps with other words under the same tag."""
    return whole_moved(orjson.loads(old.raw), old.meaning, later)


def whole_moved(old: Mapping[str, Any], name: bytes, later: Sequence[Mapping[str, Any]]) -> bool:
    """The same of a message and what it means, as a fingerprint."""
    alike = [message for message in later if message["role"] == old["role"]]
    if any(meaning(message) == name for message in alike):
        return True
    return _tag_stands_in(text_of(old), [text_of(message) for message in alike])


def _text_moved(old: Entry, message: Mapping[str, Any], later: Sequence[Mapping[str, Any]]) -> bool:
    """Whether ``message`` is the old one less blocks of text that later messages have."""
    before = orjson.loads(old.raw)
    text = text_of(before).strip()
    return part_moved(before, message, later, _NOTES.split(text)[0] if old.noted else text)


def part_moved(
    before: Mapping[str, Any],
    message: Mapping[str, Any],
    later: Sequence[Mapping[str, Any]],
    text: str,
) -> bool:
    """Whether ``message`` is ``before``, with this text, less blocks that later messages have."""
    if any(
        (before.get(key) or None) != (message.get(key) or None)
        for key in (before.keys() | message.keys()) - {"content"}
    ):
        return False
    if _other_parts(before) != _other_parts(message):
        return False
    long, short = text, text_of(message).strip()
    if len(short) + _BLOCK > len(long):
        return False
    texts = [text_of(m) for m in later if m["role"] in NOTE_ROLES]
    return any(
        all(
            len(block) >= _BLOCK
            and (any(block in text for text in texts) or _tag_stands_in(block, texts))
            for block in blocks
        )
        for blocks in _left_out(long, short)
    )


def _other_parts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [p for p in content if not (isinstance(p, Mapping) and isinstance(p.get("text"), str))]


def _left_out(long: str, short: str) -> Iterator[list[str]]:
    """The blocks by which a text got short: one inside it or at an end, or one at each end."""
    head = common_prefix(long, short)
    tail = common_prefix(long[::-1], short[::-1])
    if head + tail >= len(short):
        yield [long[head : len(long) - (len(short) - head)].strip()]
    for at in (long.find(short), long.rfind(short)):
        if at > 0:
            ends = long[:at].strip(), long[at + len(short) :].strip()
            yield [block for block in ends if block]


def _tag_stands_in(block: str, texts: Sequence[str]) -> bool:
    """Whether a block is a tagged reminder that texts have too, whatever it says by now."""
    tags = _tags(block)
    return bool(tags) and all(
        any(f"<{tag}>" in text or f"<{tag} " in text for text in texts) for tag in tags
    )


def _tags(text: str) -> list[str]:
    """The names of the tagged blocks that a text is made of; none where there is other text."""
    names: list[str] = []
    at = 0
    while at < len(text):
        match = _TAGGED.match(text, at)
        if match is None:
            return []
        names.append(match[1])
        at = match.end()
    return names
