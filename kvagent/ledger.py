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
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from types import MappingProxyType
from typing import Any

import orjson

from kvagent.fingerprint import digest, link, meaning
from kvagent.stores import Store

logger = logging.getLogger("kvagent")

Told = Mapping[int, str]
"""The volatile values, by their place in the head, that the model has been told last."""

NOTHING_TOLD: Told = MappingProxyType({})

# An agent that dumps its messages anew each turn alternates between few forms.
_ALIASES = 4
# What an entry weighs beside its bytes: the object, its dicts, and keys.
_ENTRY_BYTES = 700
_SLOTS = 4096
# How many forms of one message are read from a store, the newest ones.
_FORMS = 256
# How many answers to one request are kept, the newest ones.
_REPLIES = 8
# How many of the messages that came after one are read from a store, the newest ones.
_FOLLOWERS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Tools and leading system messages as they were sent, and what they mean."""

    system: tuple[bytes, ...]
    tools: bytes | None
    meanings: tuple[bytes, ...]
    """Meaning of each system message as the agent orders them, volatile text taken out."""
    tool_forms: Mapping[bytes, bytes]
    """The form first seen of each tool, by meaning, in the order sent."""
    options: Mapping[str, bytes]
    """The other request keys that shape the prompt."""
    hidden: frozenset[int] = frozenset()
    """The places of volatile text at which a placeholder stands."""
    _key: list[bytes] = field(default_factory=list)

    @property
    def key(self) -> bytes:
        """A digest of what was sent."""
        if not self._key:
            self._key.append(digest(self.tools or b"", *self.system))
        return self._key[0]

    @property
    def name(self) -> tuple[object, ...]:
        """Equal for heads that may stand for each other."""
        options = tuple(sorted(self.options.items()))
        return self.key, self.meanings, tuple(self.tool_forms), options, self.hidden

    @property
    def weight(self) -> int:
        """Bytes that the head holds in memory, roughly."""
        texts = (*self.system, self.tools or b"", *self.tool_forms.values())
        return _ENTRY_BYTES + sum(map(len, texts))


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the turn that ended with an entry."""

    turn: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    growths: tuple[int, ...] = ()
    """Tokens that each of the last turns added."""
    warned: float = 0.0
    """The highest share of the window that was warned of."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A message that the server generated, and that may come back."""

    meaning: bytes
    message: Mapping[str, Any]

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Reply:
        return cls(meaning(message), message)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of an answered request, to be kept as an entry."""

    meaning: bytes
    role: str
    raw: bytes
    sent: bytes
    noted: bool
    tokens: int
    """Estimated tokens of head and messages up to this one."""


@dataclass(slots=True, eq=False)
class Entry:
    """A message as it was sent, at its place in a conversation."""

    parent: Entry | None
    key: bytes
    meaning: bytes = b""
    role: str = ""
    raw: bytes = b""
    """The message as the agent gave it when it was first sent."""
    sent: bytes = b""
    """The message as it went out."""
    head: Head | None = None
    told: Told = field(default_factory=lambda: NOTHING_TOLD)
    noted: bool = False
    """Whether ``sent`` carries a note: values that belong to this conversation alone."""
    session: str | None = None
    depth: int = 0
    tokens: int = 0
    """Estimated tokens of head and messages up to here."""
    facts: Facts | None = None
    replies: tuple[Reply, ...] = ()
    children: dict[bytes, tuple[Entry, ...]] = field(default_factory=dict)
    """What followed, by meaning; entries that differ only in form stand together."""
    aliases: dict[bytes, bytes] = field(default_factory=dict)
    """Meaning by identity, for the forms in which children came lately."""
    thinned: bool = False
    """Whether it may have had more children with the same meaning than it has now."""
    stored: bool = False
    """Whether it lies in the durable store."""

    def path(self) -> list[Entry]:
        """The entries from the first message to this one."""
        path: list[Entry] = []
        entry = self
        while entry.parent is not None:
            path.append(entry)
            entry = entry.parent
        path.reverse()
        return path

    def under(
        self, meanings: tuple[bytes, ...], tools: Collection[bytes] | None = None
    ) -> Entry | None:
        """The newest entry up to here that was sent under a head with these meanings (and tools).

        A side call may have gone on from here under a head of its own.
        """
        entry = self
        while entry.head is not None and entry.parent is not None:
            if entry.head.meanings == meanings:
                if tools is None or entry.head.tool_forms.keys() == tools:
                    return entry
            entry = entry.parent
        return None

    def alias(self, raw: bytes, meaning: bytes) -> None:
        """Remember the meaning of a form, so that it need not be worked out every turn."""
        self.alias_as_it_is(_copy(raw), meaning)

    def alias_as_it_is(self, raw: bytes, meaning: bytes) -> None:
        """``alias`` for bytes that are kept anyway."""
        while len(self.aliases) >= _ALIASES + len(self.children):
            try:
                self.aliases.pop(next(iter(self.aliases)), None)
            except (StopIteration, RuntimeError):  # another thread was quicker
                break
        self.aliases[raw] = meaning

    @property
    def weight(self) -> int:
        """Bytes that the entry holds in memory, roughly."""
        raw = 0 if self.raw is self.sent else len(self.raw)
        return _ENTRY_BYTES + len(self.sent) + raw


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

    def extend(
        self,
        tip: Entry,
        messages: Sequence[Sent],
        head: Head,
        told: Told,
        session: str | None,
        facts: Facts,
        replies: Iterable[Reply],
    ) -> Entry:
        """Keep what was sent after ``tip`` and what came back; returns the new tip."""
        records: list[tuple[bytes, bytes]] = []
        with self.ledger.lock:
            entry = tip
            before = _told_before(tip, head, told)
            bearer = next((at for at, message in enumerate(messages) if message.noted), 0)
            for at, message in enumerate(messages):
                so_far = told if at >= bearer else before
                entry = self._child(entry, message, head, so_far, session, records)
            entry = self._attach(entry)  # it may have been forgotten since it was looked up
            if entry is self.root:
                return entry
            if records:
                records.append((b"head:" + head.key, _head_record(head)))
            entry.facts = facts
            records.append((b"facts:" + entry.key, orjson.dumps(facts)))
            for reply in replies:
                if all(reply.meaning != known.meaning for known in entry.replies):
                    entry.replies = (*entry.replies, reply)[-_REPLIES:]
                    self.answered[reply.meaning] = entry
                    records.append((b"reply:" + entry.key, orjson.dumps(reply.message)))
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
        new = [b"slot:%d" % place for place in sorted(changing - slots.changing)]
        slots.changing = slots.changing | changing
        if apart:
            new += [b"apart:%d" % place for place in sorted(changing - slots.apart)]
            slots.apart = slots.apart | changing
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
        self.ledger.release(entry.head)

    def _child(
        self,
        parent: Entry,
        message: Sent,
        head: Head,
        told: Told,
        session: str | None,
        records: list[tuple[bytes, bytes]],
    ) -> Entry:
        raw = _copy(message.raw)
        sent = raw if message.raw == message.sent else _copy(message.sent)
        parent.alias_as_it_is(raw, message.meaning)
        key = digest(parent.key, message.meaning, message.sent, head.key)
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
            told=told,
            noted=message.noted,
            session=session,
            depth=parent.depth + 1,
            tokens=message.tokens,
        )
        entry = self._attach(entry)
        if self.store.durable:
            place = b"entry:" + link(parent.key, message.meaning)
            records.append((place, _entry_record(entry, head.key)))
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
                below.head = self.ledger.hold(below.head)
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
            entry.replies = _read_replies(records)

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
            key = digest(parent.key, meaning, data["sent"].encode(), head)
            if (key, data["session"]) in known:
                return None
            return self._entry(parent, meaning, data, key, head)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            logger.debug("an entry in the store cannot be read; it is left out", exc_info=True)
            return None

    def _entry(
        self, parent: Entry, meaning: bytes, data: Mapping[str, Any], key: bytes, head: bytes
    ) -> Entry | None:
        heads = self.store.get(self.namespace, b"head:" + head)
        if not heads:
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
            head=_read_head(heads[0]),
            told={int(place): value for place, value in data["told"].items()},
            noted=data["noted"],
            session=data["session"],
            depth=parent.depth + 1,
            tokens=data["tokens"],
            facts=_read_facts(facts[-1]) if facts else None,
            replies=_read_replies(replies),
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
        self._heads: dict[tuple[object, ...], _Held] = {}

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

    def hold(self, head: Head | None) -> Head | None:
        """The one object for all heads like this; it weighs as long as an entry has it."""
        if head is None:
            return None
        held = self._heads.get(head.name)
        if held is None:
            held = self._heads[head.name] = _Held(head)
            self.size += head.weight
        held.entries += 1
        return held.head

    def release(self, head: Head | None) -> None:
        """An entry that had the head is gone."""
        if head is None:
            return
        held = self._heads[head.name]
        held.entries -= 1
        if not held.entries:
            del self._heads[head.name]
            self.size -= head.weight


@dataclass(slots=True)
class _Held:
    """A head, and how many entries were sent under it."""

    head: Head
    entries: int = 0


def _copy(raw: bytes) -> bytes:
    """Bytes that take no more memory than they say; those that orjson made keep 4 KiB at least."""
    return bytes(memoryview(raw))


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


def _entry_record(entry: Entry, head: bytes) -> bytes:
    raw = {} if entry.raw is entry.sent else {"raw": entry.raw.decode()}
    return orjson.dumps(
        {
            "role": entry.role,
            "sent": entry.sent.decode(),
            **raw,
            "head": head.hex(),
            "told": {str(place): value for place, value in entry.told.items()},
            "noted": entry.noted,
            "session": entry.session,
            "tokens": entry.tokens,
        }
    )


def _read_replies(records: Sequence[bytes]) -> tuple[Reply, ...]:
    replies: list[Reply] = []
    for record in records[-_REPLIES:]:
        try:
            replies.append(Reply.of(orjson.loads(record)))
        except (AttributeError, TypeError, ValueError):
            logger.debug("a reply in the store cannot be read; it is left out", exc_info=True)
    return tuple(replies)


def _read_facts(record: bytes) -> Facts:
    data = orjson.loads(record)
    return Facts(**{**data, "growths": tuple(data["growths"])})


@lru_cache(maxsize=64)
def _head_record(head: Head) -> bytes:
    return orjson.dumps(
        {
            "system": [message.decode() for message in head.system],
            "tools": None if head.tools is None else head.tools.decode(),
            "meanings": [m.hex() for m in head.meanings],
            "tool_forms": [(m.hex(), form.decode()) for m, form in head.tool_forms.items()],
            "options": {name: value.decode() for name, value in head.options.items()},
            "hidden": sorted(head.hidden),
        }
    )


@lru_cache(maxsize=64)
def _read_head(record: bytes) -> Head:
    data = orjson.loads(record)
    return Head(
        system=tuple(message.encode() for message in data["system"]),
        tools=None if data["tools"] is None else data["tools"].encode(),
        meanings=tuple(bytes.fromhex(m) for m in data["meanings"]),
        tool_forms={bytes.fromhex(m): form.encode() for m, form in data["tool_forms"]},
        options={name: value.encode() for name, value in data["options"].items()},
        hidden=frozenset(data["hidden"]),
    )
