"""Do conversations of one agent begin alike, so that they share the cache of their head?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvagent.audit.changes import tools as tool_changes
from kvagent.audit.changes.texts import Texts, joined, parts_of, place_in
from kvagent.audit.difference import loaded
from kvagent.audit.recent import Recent
from kvagent.audit.rule import Sighting
from kvagent.audit.rules.fault import Fault, contrast, first_contrast
from kvagent.audit.rules.head import DIFFERS
from kvagent.audit.sent import Known
from kvagent.audit.turns import Turn
from kvagent.fingerprint import digest

# Bytes of heads that are held, one for each agent, and how many heads are known to be told of.
_ROOM = 4 << 20
_SEEN = 10_000

# Tokens from which on a head is worth sharing.
_LEAST = 64


@dataclass(frozen=True, slots=True)
class _Head:
    """As one conversation began."""

    messages: tuple[Known, ...]
    tools: tuple[bytes, ...]
    texts: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(len(message.raw) for message in self.messages) + sum(map(len, self.tools))


class Heads:
    """Looks at the first request of each conversation."""

    def __init__(self) -> None:
        self._agents: Recent[bytes, _Head] = Recent(_ROOM)
        self._seen: Recent[bytes, bytes] = Recent(_SEEN)
        self._texts = Texts()

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """Whether a new conversation begins as others did, but for what changes by itself."""
        snapshot = turn.placed.snapshot
        if turn.kind != "first" or not snapshot.head:
            return ()
        messages = snapshot.messages[: snapshot.head]
        raw = digest(*(message.raw for message in messages), b"", *snapshot.tools)
        if self._seen.get(raw) is not None:
            return ()
        self._seen.put(raw, raw)
        texts = tuple(joined(parts_of(loaded(message.raw))) for message in messages)
        head = _Head(tuple(messages), tuple(snapshot.tools), texts)
        name = self._agent(head)
        before = self._agents.get(name)
        if before is None:
            self._agents.put(name, head, head.size)
            return ()
        lost = turn.parts.head - turn.reusable_tokens
        if lost < _LEAST:
            return ()
        fault = next(self._differing(before, head), None)
        if fault is None:
            return ()
        seen = fault.seen(turn, lost, "")
        return (
            Sighting(DIFFERS, (name, fault.key), seen.spot, seen.said, seen.fix, everywhere=True),
        )

    def end(self) -> Iterable[Sighting]:
        """Nothing: each was told when it came."""
        return ()

    def _agent(self, head: _Head) -> bytes:
        """Equal for heads with the same instructions and tools, whatever changes by itself."""
        texts = (self._texts.lasting(text).encode(errors="replace") for text in head.texts)
        return digest(*texts, b"", *sorted(map(tool_changes.lasting, head.tools)))

    def _differing(self, old: _Head, new: _Head) -> Iterator[Fault]:
        for at, (one, other) in enumerate(zip(old.texts, new.texts, strict=False)):
            for change in self._texts.changes(one, other):
                noun = "a clock" if change.what == "clock" else "an id"
                path, character = place_in(parts_of(loaded(new.messages[at].raw)), change.after)
                yield Fault(
                    DIFFERS,
                    (at, change.name),
                    f"Conversations begin with the same system prompt but for {noun} in it.",
                    message=at,
                    field=path,
                    character=character,
                    contrast=contrast(one, other, change.before, change.after),
                )
        for tools in tool_changes.changes(old.tools, new.tools):
            character, texts = first_contrast(tools.before, tools.after)
            order = "the keys of their schemas" if tools.what == "key_order" else "them"
            yield Fault(
                DIFFERS,
                tools.what,
                f"Conversations begin with the same tools, but with {order} in another order.",
                tool=tools.index,
                field=tools.field,
                character=character,
                contrast=texts,
                fix="Sort the tools and the keys of their schemas, so that each head is the same.",
            )
