"""Which conversation does a request continue, and from which message on is it new?

The deepest known chain of messages wins. Text that the agent moved from an old message to the
newest counts as still in its place, where that pays. Where content cannot tell two conversations apart, a message
that carries a note of one is not taken for the other's: no value of a conversation reaches
another's prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kvagent.chat import calls_of, text_of
from kvagent.entry import Entry
from kvagent.fingerprint import meaning, normal_form
from kvagent.head import HeadView
from kvagent.ledger import Tree
from kvagent.moved import NOTE_ROLES, held, pays

_CALLS = b'"tool_calls":[{'

# So much generated text is taken for the conversation's own; a greeting is not.
_UNIQUE_CHARS = 64

# How many places that differ only in form are weighed against each other, the deepest ones.
_CANDIDATES = 64


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
    doubted: Entry | None = None
    """Where it would have ended, if only the values did not differ."""
    let_go: Entry | None = None
    """What would have come next, if it paid to hold the text that the agent moved."""

    @property
    def covered(self) -> int:
        """Messages of the body that are known."""
        return self.consumed[self.tip.depth]

    def back_to(self, entry: Entry) -> Match:
        """The match that ends at an entry of its path."""
        moved = [at for at in self.moved if at < self.consumed[entry.depth]]
        return Match(entry, self.consumed, moved, cut=True, doubted=self.doubted)


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
        # Several forms, others than were sent then, or another's notes, are rare enough to be
        # looked at from the beginning.
        sure = (
            len(matches) == 1
            and _revised(matches[0].tip) == _revised(start.tip)
            and not _foreign_since(start.tip, matches[0].tip, view)
        )
        return matches[0] if sure else matches[0].back_to(tree.root)
    if len(matches) == 1:
        return _own_part(tree, matches[0], messages, view, session)
    own = [_own_part(tree, match, messages, view, session) for match in matches]
    # A conversation that was told these very values goes before a longer one that was told others.
    own = [match for match in own if _was_told(match, messages, view)] or own
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
    let_go: Entry | None = None
    while at < end:
        found = _step(tree, entries, raws[at], messages[at])
        if not found and full:
            found, taken = held(tree, entries, messages, at)
            if found and not pays(found[-1], messages, raws, at, taken):
                let_go, found = found[-1], ()
            elif found and taken:
                moved.append(offset + at)
            elif found:
                at -= 1  # this message is still to come
        if not found:
            break
        if len(entries) > 1:
            parents = {id(entry.parent) for entry in found}
            ended += (entry for entry in entries if id(entry) not in parents)
        at += 1
        entries = _narrowed(found, messages[at] if at < end else None)
        consumed.append(offset + at)
    if at < end and messages[at]["role"] == "assistant":
        entries = tree.answered_with(entries, meaning(messages[at]))
    matches = [Match(entry, consumed, moved) for entry in (*ended, *entries)[-_CANDIDATES:]]
    for match in matches:
        if let_go is not None and let_go.parent is match.tip:
            match.let_go = let_go
    return matches


def _step(
    tree: Tree, entries: Sequence[Entry], raw: bytes, message: Mapping[str, Any]
) -> tuple[Entry, ...]:
    if len(entries) == 1:  # nearly always, and many times a turn
        name = entries[0].aliases.get(raw)
        if name is not None:
            return tree.children(entries[0], name)
    found: tuple[Entry, ...] = ()
    meant = b""
    for entry in entries:
        name = entry.aliases.get(raw)
        if name is not None:
            more = tree.children(entry, name)
        else:
            meant = meant or meaning(message)
            more = tree.children(entry, meant)
            if more:
                entry.alias(raw, meant)
        found = found + more if found else more
    return found


def _narrowed(entries: tuple[Entry, ...], following: Mapping[str, Any] | None) -> tuple[Entry, ...]:
    """The entries, or of very many those that were answered so, else the newest."""
    if len(entries) <= _CANDIDATES:
        return entries
    if following is None:
        return entries[-_CANDIDATES:]
    name = meaning(following)
    answered = tuple(
        entry
        for entry in entries
        if name in entry.children or any(reply.meaning == name for reply in entry.replies)
    )
    return answered or entries[-_CANDIDATES:]


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
    if match.tip is tree.root or tree.alone:
        return match
    path = match.tip.path()
    evidence = _Evidence.of(path, _following(match, messages))
    if not evidence.answered and not _same_head(match.tip, view):
        return match.back_to(tree.root)  # begins with the same words, but under another head
    for entry in path:
        if _bears_values(entry) and not _is_own(tree, entry, view, session, evidence):
            assert entry.parent is not None
            aside = entry.under(view.meanings) not in (None, entry)
            if evidence.answered and not aside and session == match.tip.session:
                match.doubted = match.tip
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
        answered = False
        chars = 0
        for entry in path:
            if _was_generated(entry):
                answered = True
                # What counts is the text, not the keys that a framework writes around it.
                chars += len(text_of(orjson.loads(entry.raw)))
                if _CALLS in entry.raw or chars >= _UNIQUE_CHARS:  # a call's id is random
                    return cls(answered=True, unique=True)
        unique = False
        replies = path[-1].replies
        if following is not None and following["role"] == "assistant":
            kin = any(is_kin(following, reply.message) for reply in replies)
            if kin or (not replies and path[-1].facts is not None):
                answered = True
                chars += len(text_of(following))
                unique = any(_same_call(following, reply.message) for reply in replies)
        return cls(answered, unique or chars >= _UNIQUE_CHARS)


def _was_generated(entry: Entry) -> bool:
    """Whether a server wrote the message; an example in the agent's prompt has the same role."""
    before = entry.parent
    if entry.role != "assistant" or before is None or before.parent is None:
        return False
    # The message before may have been answered when it was sent in another form.
    for form in (before, *before.parent.children.get(before.meaning, ())):
        if form.facts is not None and not form.replies:
            return True
        for reply in form.replies:
            if reply.meaning == entry.meaning or is_kin(orjson.loads(entry.raw), reply.message):
                return True
    return False


def is_kin(message: Mapping[str, Any], generated: Mapping[str, Any]) -> bool:
    """Whether an assistant message is a generated one, perhaps with something added or cut."""
    if _same_call(message, generated):
        return True
    one, other = text_of(message).strip(), text_of(generated).strip()
    if not one or not other:
        return _functions(message) == _functions(generated) != []
    return one in other if len(one) < len(other) else other in one


def _same_call(message: Mapping[str, Any], generated: Mapping[str, Any]) -> bool:
    ids = [call["id"] for call in calls_of(generated) if call.get("id")]
    return any(call.get("id") in ids for call in calls_of(message))


def _functions(message: Mapping[str, Any]) -> list[Any]:
    """What a message calls, whatever ids its calls have."""
    return [call.get("function") for call in calls_of(normal_form(message))]


def _is_own(
    tree: Tree, entry: Entry, view: HeadView, session: str | None, evidence: _Evidence
) -> bool:
    if entry.head is not None and entry.head.meanings != view.meanings:
        # A note of a side call is not this conversation's; one of the head it had before is.
        aside = entry.under(view.meanings) is not None
        same = session is not None and entry.session == session
        return not entry.noted or (not aside and (same or evidence.unique))
    differing = _differing(entry, view)
    if not differing:
        return True
    if session is not None or entry.session is not None:
        return entry.session == session
    if not evidence.answered:
        return False
    # A clock of another conversation would do no harm; an id or a name must not get there.
    private = {place for place in differing if view.places[place].private}
    if evidence.unique or not private:
        return True
    # Where conversations were told apart by it, a value that changed within one is not believed.
    return private.isdisjoint(tree.slots(view.skeleton, view.values).apart)


def _differing(entry: Entry, view: HeadView) -> list[int]:
    """The places whose value is another now than it was told up to an entry."""
    told = entry.told
    return [place for place, value in enumerate(view.values) if told.get(place, value) != value]


def _revised(entry: Entry) -> bytes | None:
    """Which edits of what was sent before hold at an entry."""
    return entry.revision.key if entry.revision else None


def _foreign_since(start: Entry, tip: Entry, view: HeadView) -> bool:
    """Whether a message behind ``start`` may hold values of another conversation or head."""
    entry = tip
    while entry is not start and entry.parent is not None:
        other = entry.head is not None and entry.head.meanings != view.meanings
        if entry.noted if other else _bears_values(entry) and _differing(entry, view):
            return True
        entry = entry.parent
    return False


def _was_told(match: Match, messages: Sequence[Mapping[str, Any]], view: HeadView) -> bool:
    """Whether a conversation knows this request's ids and names, and goes on as it was answered."""
    tip, following = match.tip, _following(match, messages)
    told_at = tip.under(view.meanings)
    if told_at is None or any(view.places[at].private for at in _differing(told_at, view)):
        return False
    if following is None or following["role"] != "assistant" or not tip.replies:
        return True
    return any(is_kin(following, reply.message) for reply in tip.replies)


def _bears_values(entry: Entry) -> bool:
    """Whether values of its conversation stand in an entry, or in the head it was sent under."""
    return entry.noted or (entry.head is not None and not entry.told.keys() <= entry.head.hidden)


def _same_head(entry: Entry, view: HeadView) -> bool:
    head = entry.head
    return (
        head is not None
        and head.meanings == view.meanings
        and head.tool_forms.keys() == view.tool_forms.keys()
    )
