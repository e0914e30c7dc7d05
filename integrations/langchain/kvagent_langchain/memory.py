"""Whose prompts does a request continue, and which engine remembers them?

The pages of a state are the whole memory of its conversation: a checkpoint that is resumed in
another process, or a thread that goes back in time, finds just what was known then. Engines are
kept beside them so that the work of a turn grows with what is new.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from hashlib import blake2b
from itertools import accumulate
from threading import Lock
from typing import Generic, TypeVar

from langchain_core.messages import BaseMessage

from kvagent import Engine
from kvagent.session import current_session
from kvagent_langchain.pages import PageStore

T = TypeVar("T")

# Of more threads than these the state's pages are read once more.
_KEPT = 64
# Histories whose pages are known, for states that have none.
_HISTORIES = 1024


class Memory:
    """The engine of one conversation, and the pages that it stands on.

    It is one turn's own: ``Memories`` gives it to nobody else until it is given back.
    """

    def __init__(
        self,
        engine: Engine,
        store: PageStore | None = None,
        pages: tuple[str, ...] = (),
        missing: tuple[str, ...] = (),
        history: bytes = b"",
    ) -> None:
        self.engine = engine
        self.pages = pages
        """All pages, those that the state has yet to get included."""
        self.history = history
        """The history in which the newest page was written."""
        self.store = store
        """None where it is kept in no state."""
        self.missing = missing
        """The pages of which the state knows nothing yet."""
        self._read: set[str] = set()

    def ready_for(self, model: str) -> None:
        """Have read what the pages say of conversations with this model."""
        if self.store is not None and model not in self._read:
            self._read.add(model)
            self.engine.read_all(model)

    def written(self, messages: Iterable[BaseMessage]) -> list[str]:
        """The pages to be added to the state, beside which it has these messages."""
        page = None if self.store is None else self.store.page(messages)
        new = self.missing if page is None else (*self.missing, page)
        if page is not None:
            self.pages = (*self.pages, page)
        return list(new)

    @property
    def weight(self) -> int:
        """Bytes that it holds, roughly."""
        return self.engine.ledger.size + (0 if self.store is None else self.store.size)


class Memories:
    """The memories of many conversations at once; safe to use from several threads.

    The engines weigh ``max_bytes`` at most, and so do the pages that are known by their history.

    A state without pages may begin with messages all the same: an agent without a checkpointer is
    given its history anew each time. It goes on from the pages that were written for just these.
    """

    def __init__(self, engine: Callable[[PageStore], Engine], max_bytes: int) -> None:
        self._engine = engine
        self._kept: _Newest[Memory] = _Newest(_KEPT, max_bytes)
        self._histories: _Newest[tuple[str, ...]] = _Newest(_HISTORIES, max_bytes)
        self._lock = Lock()

    def take(
        self, pages: Sequence[str], messages: Sequence[BaseMessage], history: Sequence[bytes]
    ) -> Memory:
        """The memory of a state with these pages and messages; ``history`` is what is to be sent."""
        missing: tuple[str, ...] = ()
        with self._lock:
            if not pages:
                pages = missing = self._of_history(history)
            memory = self._kept.pop(_mark(pages)) if pages else None
        if memory is None:
            store = PageStore(pages, messages)
            memory = Memory(self._engine(store), store, tuple(pages))
        memory.missing = missing
        return memory

    def give_back(self, memory: Memory, history: Iterable[bytes]) -> None:
        """Keep a memory whose pages are in the state, as is this history now."""
        name = reduce(_link, history, _beginning())
        mark = _mark(memory.pages)
        with self._lock:
            if not memory.missing:  # else whoever has no pages may come with that one once more
                self._histories.pop(memory.history)
            memory.history, memory.missing = name, ()
            self._kept.put(mark, memory, memory.weight)
            # Pages that several histories have are there once: they weigh less than it says.
            self._histories.put(name, memory.pages, _weight(memory.pages))

    def _of_history(self, history: Sequence[bytes]) -> tuple[str, ...]:
        for name in reversed(list(accumulate(history, _link, initial=_beginning()))[1:]):
            pages = self._histories.get(name)
            if pages is not None:
                return pages
        return ()


class _Newest(Generic[T]):
    """So many values at most, of so many bytes; the least recently put go first, never the last."""

    def __init__(self, most: int, max_bytes: int) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self._values: OrderedDict[bytes, tuple[T, int]] = OrderedDict()
        self._size = 0

    def put(self, name: bytes, value: T, weight: int) -> None:
        self.pop(name)
        self._values[name] = value, weight
        self._size += weight
        while len(self._values) > 1 and not self._fits():
            self.pop(next(iter(self._values)))

    def get(self, name: bytes) -> T | None:
        value, _ = self._values.get(name, (None, 0))
        return value

    def pop(self, name: bytes) -> T | None:
        value, weight = self._values.pop(name, (None, 0))
        self._size -= weight
        return value

    def _fits(self) -> bool:
        return len(self._values) <= self._most and self._size <= self._max_bytes


def _mark(pages: Sequence[object]) -> bytes:
    """Names pages, readable or not."""
    return reduce(_link, (repr(page).encode(errors="replace") for page in pages), b"")


def _weight(pages: Sequence[object]) -> int:
    """Bytes of pages, roughly; what else stands among them weighs nothing."""
    return sum(len(page) for page in pages if isinstance(page, str))


def _beginning() -> bytes:
    """What one tenant's agents have sent is not what another's go on from."""
    named = current_session()
    return b"" if named is None or named.namespace is None else named.namespace.encode()


def _link(before: bytes, part: bytes) -> bytes:
    return blake2b(before + part, digest_size=16).digest()
