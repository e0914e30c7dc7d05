"""Does this body begin with the bytes of one that was answered before?

An agent that keeps its messages sends the same bytes with something added. Then only what was
added need be parsed, looked up and written: the work of a turn grows with what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from kvagent.entry import Entry, Head
from kvagent.head import HeadView
from kvagent.recognise import is_kin

# Unescaped quotes: no text that somebody writes can hold this.
_MESSAGES = b'"messages":['

# Bodies kept to compare with: so many conversations in turn.
_RECORDS = 128


@dataclass(frozen=True, slots=True, eq=False)
class Resumable:
    """A body that was answered, in the form it came and the form it went out."""

    scope: tuple[str, str | None]
    """Namespace and explicit session."""
    came: bytes
    """From the start to the end of the last message."""
    rest: bytes
    """From there to the end."""
    went: bytes
    """Like ``came``, as sent; the same object where nothing was changed."""
    went_rest: bytes
    """Like ``rest``, as sent."""
    body: Mapping[str, Any]
    """The request's other keys; its messages are not kept."""
    view: HeadView
    head: Head
    tip: Entry
    consumed: list[int]
    head_size: int
    own: int = 0
    """The hash of the request in the agent's own form."""

    @property
    def count(self) -> int:
        """Messages in the body, head included."""
        return self.head_size + self.consumed[self.tip.depth]

    def added_by(self, raw: bytes) -> bytes | None:
        """The messages that ``raw`` adds to this body, as a JSON list; None if it does not."""
        start = len(self.came)
        end = len(raw) - len(self.rest)
        if end <= start + 1 or raw[start] != 0x2C or not raw.startswith(self.came):
            return None
        if not raw.endswith(self.rest):
            return None
        return b"[" + raw[start + 1 : end] + b"]"

    def answered_otherwise(self, message: Mapping[str, Any]) -> bool:
        """Whether ``message`` replies to the same messages sent in another form, if to any."""
        if message["role"] != "assistant" or not self.tip.replies:
            return False
        return not any(is_kin(message, reply.message) for reply in self.tip.replies)


class Resumables:
    """The bodies answered lately, the most recent last, within ``max_bytes`` of memory."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._records: OrderedDict[int, Resumable] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def find(self, raw: bytes, scope: tuple[str, str | None]) -> tuple[Resumable, bytes] | None:
        """The longest body that ``raw`` continues, and the messages it adds."""
        best: tuple[Resumable, bytes] | None = None
        for record in list(self._records.values()):
            if record.scope != scope or (best and len(record.came) < len(best[0].came)):
                continue  # of two as long, the one answered last
            added = record.added_by(raw)
            if added is not None:
                best = record, added
        return best

    def keep(self, record: Resumable, instead_of: Resumable | None) -> None:
        """Remember a body; the one it continues is not needed any more."""
        with self._lock:
            self._records[id(record)] = record
            self._size += len(record.came) + len(record.went)
            if instead_of is not None:
                self._drop(id(instead_of))
            while len(self._records) > _RECORDS or self._size > self._max_bytes:
                self._drop(next(iter(self._records)))

    def _drop(self, name: int) -> None:
        record = self._records.pop(name, None)
        if record is not None:
            self._size -= len(record.came) + len(record.went)


def split(raw: bytes, messages: Sequence[bytes]) -> int | None:
    """Where the list of these messages ends in a body; None if it is not found in these bytes."""
    start = raw.find(_MESSAGES)
    if start < 0:
        return None
    joined = b",".join(messages)
    end = start + len(_MESSAGES) + len(joined)
    found = raw[end - len(joined) : end + 1] == joined + b"]"
    return end if found else None
