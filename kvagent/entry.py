"""What is kept of a message that was sent, and of what the server answered?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kvagent.fingerprint import digest, meaning
from kvagent.pricing import Rent
from kvagent.revision import Revision, forms_of

Told = Mapping[int, str]
"""The volatile values, by their place in the head, that the model has been told last."""

NOTHING_TOLD: Told = MappingProxyType({})

# How many answers to one request are kept, the newest ones.
REPLIES = 8
# An agent that dumps its messages anew each turn alternates between few forms.
_ALIASES = 4
# What an entry weighs beside its bytes: the object, its dicts, and keys.
_ENTRY_BYTES = 800


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
    switches: bytes = b""
    """``chat_template_kwargs`` that kvagent adds for the whole conversation, as JSON."""
    opening: bytes = b""
    """The system message that kvagent adds where the agent has none."""
    _key: list[bytes] = field(default_factory=list, init=False)

    @property
    def settled(self) -> bool:
        """Whether kvagent adds something for the chat template's sake."""
        return bool(self.switches or self.opening)

    @property
    def key(self) -> bytes:
        """A digest of what was sent."""
        if not self._key:
            settled = (b"settled", self.switches, self.opening) if self.settled else ()
            self._key.append(digest(self.tools or b"", *self.system, *settled))
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
class Swept:
    """Up to which depth it is known what could be cleared."""

    depth: int = 0


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
    rent: Rent = field(default_factory=Rent)
    """What old results have cost that could have been cleared."""
    swept: Swept = field(default_factory=Swept)
    learned: str = ""
    """What the engine had learned of its server, where another process may go on from here."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A message that the server generated, and that may come back."""

    meaning: bytes
    """Of the message as the caller has it."""
    message: Mapping[str, Any]
    before: tuple[Mapping[str, Any], ...] = ()
    """Messages in front of it that the caller never saw: what the model asked of kvagent."""

    @classmethod
    def of(
        cls,
        message: Mapping[str, Any],
        before: tuple[Mapping[str, Any], ...] = (),
        seen: Mapping[str, Any] | None = None,
    ) -> Reply:
        """``seen`` is the message as the caller has it, where that is another."""
        return cls(meaning(message if seen is None else seen), message, before)


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
    own: int = 0
    """Estimated tokens of this one."""


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
    revision: Revision | None = None
    """The messages before that stood in another form than first sent when this one was."""
    told: Told = field(default_factory=lambda: NOTHING_TOLD)
    noted: bool = False
    """Whether ``sent`` carries a note: values that belong to this conversation alone."""
    session: str | None = None
    depth: int = 0
    tokens: int = 0
    """Estimated tokens of head and messages up to here."""
    own: int = 0
    """Estimated tokens of the message itself."""
    facts: Facts | None = None
    replies: tuple[Reply, ...] = ()
    children: dict[bytes, tuple[Entry, ...]] = field(default_factory=dict)
    """What followed, by meaning; entries that differ only in form stand together."""
    aliases: dict[bytes, bytes] = field(default_factory=dict)
    """Meaning by identity, for the forms in which children came lately."""
    came: tuple[int, ...] = ()
    """Hashes of the agent's own requests up to here, the newest last; empty: none is known."""
    looks: tuple[tuple[int, int | None], ...] = ()
    """Of forms in which the agent sent it later: their hash, and the hash of what a server is shown
    of them; None where that is the same as of the first."""
    thinned: bool = False
    """Whether it may have had more children with the same meaning than it has now."""
    stored: bool = False
    """Whether it lies in the durable store."""

    def path(self, behind: Entry | None = None) -> list[Entry]:
        """The entries from the first message, or from the one ``behind`` an entry, to this one."""
        path: list[Entry] = []
        entry, depth = self, 0 if behind is None else behind.depth
        while entry.parent is not None and entry.depth > depth:
            path.append(entry)
            entry = entry.parent
        path.reverse()
        return path

    def forms(self) -> list[bytes]:
        """The messages up to this one as they were last sent."""
        return forms_of((entry.sent for entry in self.path()), self.revision)

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
        self.alias_as_it_is(copied(raw), meaning)

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


def copied(raw: bytes) -> bytes:
    """Bytes that take no more memory than they say; those that orjson made keep 4 KiB at least."""
    return bytes(memoryview(raw))


def newest_facts(entry: Entry) -> Facts | None:
    """What is known of the newest answered turn on the way to an entry."""
    at: Entry | None = entry
    while at is not None and at.facts is None:
        at = at.parent
    return None if at is None else at.facts
