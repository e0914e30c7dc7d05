"""What was sent, in which conversation, in exactly which form?

A tree of immutable entries, one a message: who shares a beginning shares its entries, so going
back, retrying and fanning out fork for free, and reading needs no lock. Several entries under one
parent may have the same meaning, sent in different forms (each with a note of its own
conversation, say). Behind the tree may stand a durable store, from which it is read again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import orjson

from kvagent.entry import REPLIES, Entry, Facts, Head, Reply, Sent, Told, copied
from kvagent.fingerprint import digest, link
from kvagent.records import (
    entry_record,
    head_record,
    read_facts,
    read_head,
    read_replies,
    read_revision,
    reply_record,
    revision_record,
)
from kvagent.revision import Revision
from kvagent.stores import Store

logger = logging.getLogger("kvagent")

Shared = TypeVar("Shared", Head, Revision)

_SLOTS = 4096
# How many forms of one message are read from a store, the newest ones.
_FORMS = 256
# How many of the messages that came after one are read from a store, the newest ones.
_FOLLOWERS = 64


@dataclass(slots=True)
class Slots:
    """Volatile text of one kind of head: the values first seen, and which were seen to change."""

    first: tuple[str, ...]
    changing: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()
    """Those of them at which conversations differ from their beginning: by tenant or ticket."""


class Tree:
    """The conversations of one namespace with one model."""

    def __init__(self, ledger: Ledger, namespace: str, model: str) -> None:
        self.ledger = ledger
        self.store = ledger.store
        self.namespace = namespace
        self.model = model
        self.root = Entry(None, digest(b"root", model.encode()))
        self.newest: dict[bytes, Entry] = {}
        """The newest entry of each meaning, wherever it stands."""
        self.answered: dict[bytes, Entry] = {}
        """The newest entry after which a reply of each meaning was generated."""
        self.alone = False
        """Whether all of it is known to be one conversation, with its branches."""
        self._slots: OrderedDict[bytes, Slots] = OrderedDict()

    def children(self, parent: Entry, meaning: bytes) -> tuple[Entry, ...]:
        """The entries known for a message after ``parent``, oldest first."""
        known = parent.children.get(meaning, ())
        if self.store.durable and (not known or parent is self.root or parent.thinned):
            # Other processes begin conversations too: a first message is looked up every time.
            return self._load(parent, meaning, known)
        return known

    def answered_with(self, entries: tuple[Entry, ...], reply: bytes) -> tuple[Entry, ...]:
        """``entries``, or the forms in which other processes sent them, if those got this reply."""
        if not self.store.durable or _got(entries, reply):
            return entries
        for entry in entries:
            if entry.parent is not None:
                siblings = entry.parent.children.get(entry.meaning, ())
                forms = _got(self._load(entry.parent, entry.meaning, siblings), reply)
                if forms:
                    return forms
        return entries

    def followers(self, parent: Entry) -> list[tuple[Entry, ...]]:
        """The entries known for whatever came after ``parent``, message by message."""
        if self.store.durable:
            for name in self.store.get(self.namespace, b"next:" + parent.key)[-_FOLLOWERS:]:
                if name not in parent.children:
                    self._load(parent, name, ())
        return list(parent.children.values())

    def read_all(self) -> None:
        """Have in memory all that the store knows: it is of one conversation alone."""
        self.alone = True
        entries = [self.root]
        while entries:
            entries += (each for forms in self.followers(entries.pop()) for each in forms)

    def extend(
        self,
        tip: Entry,
        messages: Sequence[Sent],
        head: Head,
        told: Told,
        session: str | None,
        facts: Facts,
        replies: Iterable[Reply],
        revision: Revision | None = None,
    ) -> Entry:
        """Keep what was sent after ``tip`` and what came back; returns the new tip.

        ``revision`` are the forms in which the messages up to ``tip`` stood.
        """
        records: list[tuple[bytes, bytes]] = []
        with self.ledger.lock:
            entry = tip
            before = _told_before(tip, head, told)
            bearer = next((at for at, message in enumerate(messages) if message.noted), 0)
            for at, message in enumerate(messages):
                so_far = told if at >= bearer else before
                entry = self._child(entry, message, head, so_far, session, revision, records)
            entry = self._attach(entry)  # it may have been forgotten since it was looked up
            if entry is self.root:
                return entry
            if records:
                records.append((b"head:" + head.key, head_record(head)))
                if revision is not None:
                    records.append((b"revision:" + revision.key, revision_record(revision)))
            entry.facts = facts
            records.append((b"facts:" + entry.key, orjson.dumps(facts)))
            for reply in replies:
                if all(reply.meaning != known.meaning for known in entry.replies):
                    entry.replies = (*entry.replies, reply)[-REPLIES:]
                    self.answered[reply.meaning] = entry
                    records.append((b"reply:" + entry.key, reply_record(reply)))
            self.ledger.touch(self, entry)
        if self.store.durable and records:
            self.store.batch(self.namespace, records)
            for known in _unstored(entry):
                known.stored = True
        return entry

    def slots(self, skeleton: bytes, values: tuple[str, ...]) -> Slots:
        """What is known of a head's volatile text; values seen for the first time are kept."""
        slots = self._slots.get(skeleton)
        if slots is None or self.store.durable:  # other processes see text change too
            loaded = self._load_slots(skeleton, values)
            with self.ledger.lock:
                slots = self._slots.setdefault(skeleton, loaded)
                slots.changing |= loaded.changing
                slots.apart |= loaded.apart
                while len(self._slots) > _SLOTS:
                    self._slots.popitem(last=False)
        return slots

    def mark_changing(
        self, skeleton: bytes, slots: Slots, changing: frozenset[int], *, apart: bool = False
    ) -> None:
        """Remember that these places change: later conversations get a placeholder there.

        ``apart``: they were seen to differ between two conversations, not within one.
        """
        with self.ledger.lock:
            new = [b"slot:%d" % place for place in sorted(changing - slots.changing)]
            slots.changing |= changing
            if apart:
                new += [b"apart:%d" % place for place in sorted(changing - slots.apart)]
                slots.apart |= changing
        if new and self.store.durable:
            self.store.add(self.namespace, b"volatile:" + skeleton, *new)

    def forget(self, entry: Entry) -> None:
        """Take an entry without children out of the tree."""
        parent = entry.parent
        assert parent is not None
        siblings = parent.children.get(entry.meaning, ())
        if entry not in siblings:
            return
        entry.thinned = True  # should it be attached again, then without its children
        rest = tuple(e for e in siblings if e is not entry)
        if rest:
            parent.children[entry.meaning] = rest
            parent.thinned = True
        else:
            parent.children.pop(entry.meaning, None)
            for raw in [r for r, m in list(parent.aliases.items()) if m == entry.meaning]:
                parent.aliases.pop(raw, None)
        if self.newest.get(entry.meaning) is entry:
            del self.newest[entry.meaning]
        for reply in entry.replies:
            if self.answered.get(reply.meaning) is entry:
                del self.answered[reply.meaning]
        self.ledger.size -= entry.weight
        for shared in (entry.head, entry.revision):
            if shared is not None:
                self.ledger.release(shared)

    def _child(
        self,
        parent: Entry,
        message: Sent,
        head: Head,
        told: Told,
        session: str | None,
        revision: Revision | None,
        records: list[tuple[bytes, bytes]],
    ) -> Entry:
        raw = copied(message.raw)
        sent = raw if message.raw == message.sent else copied(message.sent)
        parent.alias_as_it_is(raw, message.meaning)
        key = _key(
            parent, message.meaning, message.sent, head.key, revision.key if revision else b""
        )
        for known in parent.children.get(message.meaning, ()):
            if known.key == key and (known.session == session or not known.noted):
                return known
        entry = Entry(
            parent,
            key,
            meaning=message.meaning,
            role=message.role,
            raw=raw,
            sent=sent,
            head=head,
            revision=revision,
            told=told,
            noted=message.noted,
            session=session,
            depth=parent.depth + 1,
            tokens=message.tokens,
            own=message.own,
        )
        entry = self._attach(entry)
        if self.store.durable:
            place = b"entry:" + link(parent.key, message.meaning)
            records.append((place, entry_record(entry, head.key)))
            records.append((b"next:" + parent.key, message.meaning))
        return entry

    def _attach(self, entry: Entry) -> Entry:
        """Put an entry into the tree, and those before it that were forgotten meanwhile.

        Returns the entry that stands there: one of them may have been read again from the store.
        """
        missing: list[Entry] = []
        while entry.parent is not None and not _is_attached(entry):
            missing.append(entry)
            entry = entry.parent
        for below in reversed(missing):
            siblings = entry.children.get(below.meaning, ())
            for twin in siblings:
                if twin.key == below.key and twin.session == below.session:
                    entry = twin
                    break
            else:
                below.parent = entry
                below.head = self.ledger.hold(below.head) if below.head else None
                below.revision = self.ledger.hold(below.revision) if below.revision else None
                entry.children[below.meaning] = (*siblings, below)
                self.newest[below.meaning] = below
                self.answered.update((reply.meaning, below) for reply in below.replies)
                self.ledger.size += below.weight
                entry = below
        return entry

    def _load(self, parent: Entry, meaning: bytes, known: tuple[Entry, ...]) -> tuple[Entry, ...]:
        records = self.store.get(self.namespace, b"entry:" + link(parent.key, meaning))
        if len(records) <= sum(entry.stored for entry in known):
            if not known:
                self._load_replies(parent, meaning)
            return known
        known = parent.children.get(meaning, ())
        keys = {(entry.key, entry.session) for entry in known}
        read = [self._read(parent, meaning, record, keys) for record in records[-_FORMS:]]
        with self.ledger.lock:
            loaded = [self._attach(entry) for entry in read if entry is not None]
            for entry in loaded:  # where memory is short, the last of them push out the first
                self.ledger.touch(self, entry)
        found = {(entry.key, entry.session): entry for entry in (*known, *loaded)}
        return tuple(found.values())

    def _load_replies(self, entry: Entry, meaning: bytes) -> None:
        """Look for what other processes were answered, if this reply is none of those known."""
        if entry is self.root or any(reply.meaning == meaning for reply in entry.replies):
            return
        records = self.store.get(self.namespace, b"reply:" + entry.key)
        if len(records) > len(entry.replies):
            entry.replies = read_replies(records)

    def _read(
        self,
        parent: Entry,
        meaning: bytes,
        record: bytes,
        known: Collection[tuple[bytes, str | None]],
    ) -> Entry | None:
        """The entry of a record, unless its key and session are known or it cannot be read."""
        try:
            data = orjson.loads(record)
            head = bytes.fromhex(data["head"])
            revision = bytes.fromhex(data.get("revision", ""))
            key = _key(parent, meaning, data["sent"].encode(), head, revision)
            if (key, data["session"]) in known:
                return None
            return self._entry(parent, meaning, data, key, head, revision)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            logger.debug("an entry in the store cannot be read; it is left out", exc_info=True)
            return None

    def _entry(
        self,
        parent: Entry,
        meaning: bytes,
        data: Mapping[str, Any],
        key: bytes,
        head: bytes,
        revision: bytes,
    ) -> Entry | None:
        heads = self.store.get(self.namespace, b"head:" + head)
        edited = self.store.get(self.namespace, b"revision:" + revision) if revision else ()
        if not heads or (revision and not edited):
            return None
        sent = data["sent"].encode()
        replies = self.store.get(self.namespace, b"reply:" + key)
        facts = self.store.get(self.namespace, b"facts:" + key)
        return Entry(
            parent,
            key,
            meaning=meaning,
            role=data["role"],
            raw=data["raw"].encode() if "raw" in data else sent,
            sent=sent,
            head=read_head(heads[0]),
            revision=read_revision(edited[0]) if edited else None,
            told={int(place): value for place, value in data["told"].items()},
            noted=data["noted"],
            session=data["session"],
            depth=parent.depth + 1,
            tokens=data["tokens"],
            own=data.get("own", 0),
            facts=read_facts(facts[-1]) if facts else None,
            replies=read_replies(replies),
            stored=True,
        )

    def _load_slots(self, skeleton: bytes, values: tuple[str, ...]) -> Slots:
        slots = Slots(values)
        if self.store.durable:
            place = b"volatile:" + skeleton
            kept = self.store.get(self.namespace, place)
            for value in reversed(kept):  # the values that were first win
                kind, _, text = value.partition(b":")
                try:
                    if kind == b"first":
                        slots.first = tuple(orjson.loads(text))
                    elif kind == b"apart":
                        slots.apart |= {int(text)}
                    else:
                        slots.changing |= {int(text)}
                except ValueError:
                    logger.debug("volatile places in the store cannot be read", exc_info=True)
            if not kept:
                self.store.add(self.namespace, place, b"first:" + orjson.dumps(values))
        return slots


class Ledger:
    """All trees, within ``max_bytes`` of memory: the least recently used conversations go."""

    def __init__(self, store: Store, max_bytes: int) -> None:
        self.store = store
        self.max_bytes = max_bytes
        self.size = 0
        self.lock = Lock()
        self._trees: dict[tuple[str, str], Tree] = {}
        self._tips: OrderedDict[int, tuple[Tree, Entry]] = OrderedDict()
        self._held: dict[tuple[object, ...], _Held] = {}

    def tree(self, namespace: str, model: str) -> Tree:
        """The conversations of a namespace with a model."""
        tree = self._trees.get((namespace, model))
        if tree is None:
            tree = self._trees.setdefault((namespace, model), Tree(self, namespace, model))
        return tree

    def touch(self, tree: Tree, tip: Entry) -> None:
        """Mark a conversation as used, and forget others where memory is short; holds the lock."""
        self._trees.setdefault((tree.namespace, tree.model), tree)
        self._tips[id(tip)] = (tree, tip)
        self._tips.move_to_end(id(tip))
        while self.size > self.max_bytes and len(self._tips) > 1:
            _, (tree, entry) = self._tips.popitem(last=False)
            while entry.parent is not None and not entry.children and id(entry) not in self._tips:
                tree.forget(entry)
                entry = entry.parent
            if not tree.root.children:
                self._trees.pop((tree.namespace, tree.model), None)

    def hold(self, shared: Shared) -> Shared:
        """The one object for all heads or edits like this; it weighs as long as an entry has it."""
        name = type(shared), *shared.name
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = _Held(shared)
            self.size += shared.weight
        held.entries += 1
        return held.shared  # type: ignore[return-value]  # its type is part of the name

    def release(self, shared: Head | Revision) -> None:
        """An entry that had it is gone."""
        name = type(shared), *shared.name
        held = self._held[name]
        held.entries -= 1
        if not held.entries:
            del self._held[name]
            self.size -= shared.weight


@dataclass(slots=True)
class _Held:
    """A head or edits, and how many entries were sent with it."""

    shared: Head | Revision
    entries: int = 0


def _key(parent: Entry, meaning: bytes, sent: bytes, head: bytes, revision: bytes) -> bytes:
    """The name of an entry: what was sent, under which head, behind which revision."""
    return digest(parent.key, meaning, sent, head, *([revision] if revision else []))


def _unstored(entry: Entry) -> Iterator[Entry]:
    """The last entries of a path, as far as they were not known to lie in the store."""
    while entry.parent is not None and not entry.stored:
        yield entry
        entry = entry.parent


def _is_attached(entry: Entry) -> bool:
    return entry.parent is None or entry in entry.parent.children.get(entry.meaning, ())


def _got(entries: Iterable[Entry], reply: bytes) -> tuple[Entry, ...]:
    """Those that were answered with a reply of this meaning."""
    return tuple(e for e in entries if any(known.meaning == reply for known in e.replies))


def _told_before(tip: Entry, head: Head, told: Told) -> Told:
    """What the model knows in front of the note: another conversation may fork off there."""
    same = tip.under(head.meanings)
    if same is not None and same.head is not None and same.head.system == head.system:
        return same.told
    return {place: value for place, value in told.items() if place not in head.hidden}
