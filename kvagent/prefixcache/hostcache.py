"""Which whole prompts does llama.cpp keep in the host's memory, and when does one come back?

Its ``--cache-ram``: whole prompts with the state of their slot, first in, first out. It is read
when a slot is about to lose much of what it holds, and a prompt that comes back leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import pack, unpack
from typing import Any

from kvagent.prefixcache.checkpoints import Checkpoint
from kvagent.prefixcache.seen import Seen, Tokens, begins, common_prefix

WORTH_LOADING = 0.25
"""An entry of which less is in common is not loaded."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One saved prompt: its tokens, the state of the memory under them, and what that takes."""

    tokens: Tokens[int]
    checkpoints: Sequence[Checkpoint]
    state: Any
    size: int
    """Bytes, with those of the checkpoints."""


class HostCache:
    """The entries, oldest first.

    Args:
        limit: bytes; None has no limit of bytes, but still the one of tokens.
        limit_tokens: the server's whole context. More tokens than this are kept only as far as
            ``limit`` is estimated to hold them: with no limit of bytes, never.
    """

    def __init__(self, limit: int | None, limit_tokens: int) -> None:
        self._limit = limit
        self._limit_tokens = limit_tokens
        self._entries: list[Entry] = []
        self.dropped = Seen()
        """What was here, or would have been, and found no room."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries, oldest first."""
        return self._entries

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(entry.size for entry in self._entries)

    def save(self, entry: Entry) -> bool:
        """Take ``entry`` in as the newest; False if it is here already or larger than the limit.

        Entries that begin it are of no more use and go; the oldest go until there is room.
        """
        if any(begins(entry.tokens, old.tokens) for old in self._entries):
            return False
        if self._limit is not None and entry.size > self._limit:
            self.dropped.add(entry.tokens)
            return False
        self._entries = [old for old in self._entries if not begins(old.tokens, entry.tokens)]
        while self._limit is not None and self._entries and self.size + entry.size > self._limit:
            self._drop()
        self._entries.append(entry)
        return True

    def load(
        self, prompt: Tokens[int], held: Tokens[int], restore: Callable[[Entry], bool]
    ) -> Entry | None:
        """The entry that serves ``prompt`` better than the slot, which holds ``held``, or None.

        Better means that more of the prompt is in the entry and that more of the entry is in the
        prompt. It leaves the cache if ``restore`` finds room for it in the slot.

        Raises:
            NoRoom: ``restore`` did not; the slot is empty then, and the entry stays.
        """
        common = common_prefix(held, prompt)
        kept = single(common / len(held)) if held else -1.0
        similarity = single(common / len(prompt))
        best: Entry | None = None
        for entry in self._entries:
            least = max(int(similarity * len(prompt)), int(WORTH_LOADING * len(entry.tokens)))
            if least and entry.tokens[least - 1 : least] != prompt[least - 1 : least]:
                continue  # less is in common than it takes, which is seen at once
            common = common_prefix(entry.tokens, prompt)
            of_entry = single(common / len(entry.tokens))
            of_prompt = single(common / len(prompt))
            if of_entry >= WORTH_LOADING and kept < of_entry and similarity < of_prompt:
                kept, similarity, best = of_entry, of_prompt, entry
        if best is None:
            return None
        if not restore(best):
            raise NoRoom
        self._entries = [entry for entry in self._entries if entry is not best]
        return best

    def trim(self) -> None:
        """Let the oldest go until both limits are kept."""
        while self._limit is not None and self._entries and self.size > self._limit:
            self._drop()
        held = sum(len(entry.tokens) for entry in self._entries)
        a_token = max(1.0, single(single(self.size) / max(1, held)))
        room = self._limit_tokens
        if self._limit is not None:
            room = max(room, int(single(single(self._limit) / a_token)))
        while self._entries and held > room:
            held -= len(self._entries[0].tokens)
            self._drop()

    def _drop(self) -> None:
        self.dropped.add(self._entries.pop(0).tokens)


class NoRoom(Exception):
    """The slot's memory could not take the saved state."""


def single(number: float) -> float:
    """``number`` as the server has it: rounded to 32 bits, where close fractions become equal."""
    value: float = unpack("<f", pack("<f", number))[0]
    return value
