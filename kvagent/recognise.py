"""Which conversation does a request continue, and from which message on is it new?

The deepest known chain of messages wins. Text that the agent moved from an old message to the
newest counts as still in its place. Where content cannot tell two conversations apart, a message
that carries a note of one is not taken for the other's: no value of a conversation reaches
another's prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import orjson

from kvagent.chat import text_of
from kvagent.fingerprint import meaning
from kvagent.head import HeadView
from kvagent.ledger import Entry, Tree

_TAG = re.compile(r"\s*<([\w-]+)[^>]*>.*</\1>\s*", re.DOTALL)

# Shorter text is not taken for something that an agent moved.
_BLOCK = 16

# So much generated text is taken for the conversation's own; a greeting is not.
_UNIQUE_CHARS = 64

# How many places that differ only in form are weighed against each other, the deepest ones.
_CANDIDATES = 64

# How many of the messages that once followed are looked at for moved text, newest first.
_SIBLINGS = 64

NOTE_ROLES = ("user", "tool")


@dataclass(slots=True)
class Match:
    """Where a request continues: the last entry it repeats, and how many messages that covers."""

    tip: Entry
    consumed: list[int]
    """Per depth, root first, how many messages of the body that entry's path covers."""
    moved: list[int]
    """Messages recognised although the agent moved text out of them."""
    cut: bool = False
    """Whether known entries were left out, because they may be another conversation's."""

    @property
    def covered(self) -> int:
        """Messages of the body that are known."""
        return self.consumed[self.tip.depth]

    def back_to(self, entry: Entry) -> Match:
        """The match that ends at an entry of its path."""
        return Match(
            entry, self.consumed, [i for i in self.moved if i < self.consumed[entry.depth]], True
        )


def recognise(
    tree: Tree,
    messages: Sequence[Mapping[str, Any]],
    raws: Sequence[bytes],
    view: HeadView,
    session: str | None,
    *,
    full: bool,
    start: Match | None = None,
) -> Match:
    """The place in the tree to which the body ``messages`` lead.

    ``full`` allows what changes text: holding moved text in place, and notes. ``start`` is a
    place known to be reached; then ``messages`` are those that follow.
    """
    begin = start or Match(tree.root, [0], [])
    matches = _walk(tree, messages, raws, full, begin)
    if start is not None:
        # Several forms from a known place on: rare enough to be looked at from the beginning.
        return matches[0] if len(matches) == 1 else matches[0].back_to(tree.root)
    if len(matches) == 1:
        return _own_part(tree, matches[0], messages, view, session)
    own = [_own_part(tree, match, messages, view, session) for match in matches]
    covered = max(match.covered for match in own)
    return _likeliest([m for m in own if m.covered == covered], messages, view, session)


def reopened(match: Match, messages: Sequence[Mapping[str, Any]]) -> Match:
    """The match ended earlier, so that a user or tool message is fresh and can bear a note."""
    if any(message["role"] in NOTE_ROLES for message in messages[match.covered :]):
        return match
    entry = match.tip
    while entry.parent is not None:
        if entry.role in NOTE_ROLES:
            return match.back_to(entry.parent)
        entry = entry.parent
    return match


def _walk(
    tree: Tree,
    messages: Sequence[Mapping[str, Any]],
    raws: Sequence[bytes],
    full: bool,
    begin: Match,
) -> list[Match]:
    """The places reached; several where entries differ only in form."""
    entries: tuple[Entry, ...] = (begin.tip,)
    consumed = list(begin.consumed)
    moved = list(begin.moved)
    offset = begin.covered
    at, end = 0, len(raws)
    ended: list[Entry] = []
    while at < end:
        found = _step(tree, entries, raws[at], messages[at])
        if not found and full:
            found, taken = _held(entries, messages, at)
            if found and taken:
                moved.append(offset + at)
            elif found:
                at -= 1  # this message is still to come
        if not found:
            break
        if len(entries) > 1:
            parents = {id(entry.parent) for entry in found}
            ended += (entry for entry in entries if id(entry) not in parents)
        at += 1
        entries = found
        consumed.append(offset + at)
    return [Match(entry, consumed, moved) for entry in (*ended, *entries)[-_CANDIDATES:]]


def _step(
    tree: Tree, entries: Sequence[Entry], raw: bytes, message: Mapping[str, Any]
) -> tuple[Entry, ...]:
    if len(entries) == 1:  # nearly always, and many times a turn
        name = entries[0].aliases.get(raw)
        if name is not None:
            return tree.children(entries[0], name)
    found: tuple[Entry, ...] = ()
    for entry in entries:
        name = entry.aliases.get(raw)
        if name is not None:
            more = tree.children(entry, name)
        else:
            name = meaning(message)
            more = tree.children(entry, name)
            if more:
                entry.alias(raw, name)
        found = found + more if found else more
    return found


def _held(
    entries: Sequence[Entry], messages: Sequence[Mapping[str, Any]], at: int
) -> tuple[tuple[Entry, ...], int]:
    """The entry that stands here if the agent moved it, or a part of it, to a later message.

    And how many messages of the request it stands for: 1, or 0 for a whole message moved.
    """
    later = [m for m in messages[at + 1 :][-8:] if m["role"] in NOTE_ROLES]
    if not later:
        return (), 0
    message = messages[at]
    for entry in entries:
        for siblings in list(entry.children.values())[: -_SIBLINGS - 1 : -1]:
            old = siblings[-1]
            if old.role in NOTE_ROLES and old.role == message["role"]:
                if _text_moved(old, message, later):
                    return siblings, 1
            elif old.role == "user" and message["role"] == "assistant":
                if any(meaning(m) == old.meaning for m in later):
                    return siblings, 0
    return (), 0


def _text_moved(old: Entry, message: Mapping[str, Any], later: Sequence[Mapping[str, Any]]) -> bool:
    """Whether ``message`` is the old one less a block of text that a later message has."""
    before = orjson.loads(old.raw)
    if any(
        (before.get(key) or None) != (message.get(key) or None)
        for key in (before.keys() | message.keys()) - {"content"}
    ):
        return False
    long, short = text_of(before).strip(), text_of(message).strip()
    if len(short) + _BLOCK > len(long):
        return False
    head = len(commonprefix((long, short)))
    tail = len(commonprefix((long[::-1], short[::-1])))
    if head + tail < len(short):
        return False
    head = min(head, len(short))
    block = long[head : len(long) - (len(short) - head)].strip()
    if len(block) < _BLOCK:
        return False
    tag = _TAG.fullmatch(block)
    # A tagged reminder may say something else by now; it is the same reminder all the same.
    return any(block in text or (tag and f"<{tag[1]}" in text) for text in map(text_of, later))


def _likeliest(
    matches: Sequence[Match],
    messages: Sequence[Mapping[str, Any]],
    view: HeadView,
    session: str | None,
) -> Match:
    """The likeliest of places that cover as much, or their common part."""

    def likeliness(match: Match) -> tuple[bool, bool, bool, int]:
        tip = match.tip
        name = _following(match, messages)
        return (
            name is not None and any(reply.meaning == meaning(name) for reply in tip.replies),
            session is not None and tip.session == session,
            _same_head(tip, view),
            -len(_differing(tip, view)),
        )

    best = max(map(likeliness, matches))
    likely = [match for match in matches if likeliness(match) == best]
    chosen = likely[-1]
    if len(likely) > 1:
        paths = [match.tip.path() for match in likely]
        for entries in zip(*paths, strict=False):
            if any(e is not entries[0] for e in entries) and any(map(_bears_values, entries)):
                assert entries[-1].parent is not None
                return chosen.back_to(entries[-1].parent)
    return chosen


def _following(match: Match, messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The message that comes after a match; ``messages`` are all the body's."""
    return messages[match.covered] if match.covered < len(messages) else None


def _own_part(
    tree: Tree,
    match: Match,
    messages: Sequence[Mapping[str, Any]],
    view: HeadView,
    session: str | None,
) -> Match:
    """The part of a match that may be taken for this conversation's own."""
    if match.tip is tree.root:
        return match
    path = match.tip.path()
    evidence = _Evidence.of(path, _following(match, messages))
    if not evidence.answered and not _same_head(match.tip, view):
        return match.back_to(tree.root)  # begins with the same words, but under another head
    for entry in path:
        if _bears_values(entry) and not _is_own(entry, view, session, evidence):
            assert entry.parent is not None
            return match.back_to(entry.parent)
    return match


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What speaks for a request being the conversation that it repeats."""

    answered: bool
    """It repeats something that the server generated there."""
    unique: bool
    """And this is nothing that another conversation could have been given too."""

    @classmethod
    def of(cls, path: Sequence[Entry], following: Mapping[str, Any] | None) -> _Evidence:
        answered = any(entry.role == "assistant" for entry in path)
        chars = sum(len(entry.sent) for entry in path if entry.role == "assistant")
        unique = any(entry.role == "tool" for entry in path)  # its call's id is random
        replies = path[-1].replies
        if following is not None and following["role"] == "assistant":
            if not replies or any(is_kin(following, reply.message) for reply in replies):
                answered = True
                chars += len(text_of(following))
                unique = unique or bool(replies and following.get("tool_calls"))
        return cls(answered, unique or chars >= _UNIQUE_CHARS)


def is_kin(message: Mapping[str, Any], generated: Mapping[str, Any]) -> bool:
    """Whether an assistant message is a generated one, perhaps with something added or cut."""
    ids = {call.get("id") for call in generated.get("tool_calls") or () if call.get("id")}
    if any(call.get("id") in ids for call in message.get("tool_calls") or ()):
        return True
    one, other = text_of(message).strip(), text_of(generated).strip()
    return one in other if len(one) < len(other) else other in one


def _is_own(entry: Entry, view: HeadView, session: str | None, evidence: _Evidence) -> bool:
    differing = _differing(entry, view)
    if not differing:
        return True
    if session is not None or entry.session is not None:
        return entry.session == session
    if not evidence.answered:
        return False
    # A clock of another conversation would do no harm; an id or a name must not get there.
    return evidence.unique or all(view.places[place].at_sight for place in differing)


def _differing(entry: Entry, view: HeadView) -> list[int]:
    """The places whose value is another now than it was told up to an entry."""
    return [place for place, value in enumerate(view.values) if entry.told.get(place) != value]


def _bears_values(entry: Entry) -> bool:
    """Whether values of its conversation stand in an entry, or in the head it was sent under."""
    return entry.noted or (entry.head is not None and len(entry.told) > len(entry.head.hidden))


def _same_head(entry: Entry, view: HeadView) -> bool:
    head = entry.head
    return (
        head is not None
        and head.meanings == view.meanings
        and head.tool_forms.keys() == view.tool_forms.keys()
    )
