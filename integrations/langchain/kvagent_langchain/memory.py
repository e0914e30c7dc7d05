"""How does what was sent live in an agent's state, so that whoever resumes it sends the same bytes?

Each answered model call adds one page: what the ledger stored for it, compressed. The pages of a
state are the whole memory of its conversation, so a checkpoint that is resumed in another process,
or a thread that goes back in time, finds just what was known then.
"""

from __future__ import annotations

import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from hashlib import blake2b
from itertools import accumulate
from threading import Lock

from kvagent import Engine

Item = tuple[str, bytes, bytes]
"""Namespace, key and value."""

_LENGTHS = struct.Struct(">3I")
# Threads whose engines are kept; of others the state's pages are read once more.
_KEPT = 64


class PageStore:
    """A store that begins with the pages of a state, and tells what was added since."""

    durable = True

    def __init__(self, pages: Iterable[bytes] = ()) -> None:
        self._values: dict[tuple[str, bytes], dict[bytes, None]] = {}
        self._added: list[Item] = []
        self._lock = Lock()
        for page in pages:
            for namespace, key, value in _read(page):
                self._values.setdefault((namespace, key), {})[value] = None

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        self.batch(namespace, [(key, value) for value in values])

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        with self._lock:
            for key, value in items:
                values = self._values.setdefault((namespace, key), {})
                if value not in values:
                    values[value] = None
                    self._added.append((namespace, key, value))

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        with self._lock:
            return tuple(self._values.get((namespace, key), ()))

    def page(self) -> bytes | None:
        """What was added since the last page; None where that is nothing."""
        with self._lock:
            added, self._added = self._added, []
        return _written(added) if added else None

    def begin_again(self) -> None:
        """Have all of it on the next page: it is for a state that has none."""
        with self._lock:
            self._added = [(*address, v) for address, vs in self._values.items() for v in vs]

    def close(self) -> None:
        """There is nothing to release."""


def _written(items: Iterable[Item]) -> bytes:
    parts: list[bytes] = []
    for namespace, key, value in items:
        name = namespace.encode("utf-8", "surrogatepass")
        parts += [_LENGTHS.pack(len(name), len(key), len(value)), name, key, value]
    return zlib.compress(b"".join(parts), 1)


def _read(page: bytes) -> Iterator[Item]:
    """The items of a page; ``ValueError`` for what is none."""
    try:
        data = zlib.decompress(page)
        at = 0
        while at < len(data):
            name, key, value = _LENGTHS.unpack_from(data, at)
            at += _LENGTHS.size
            yield (
                data[at : at + name].decode("utf-8", "surrogatepass"),
                data[at + name : at + name + key],
                data[at + name + key : at + name + key + value],
            )
            at += name + key + value
    except (struct.error, zlib.error) as error:
        raise ValueError(f"a page of kvagent's memory cannot be read: {error}") from error


class Memory:
    """The engine of one conversation, and the pages that it stands on."""

    def __init__(self, engine: Engine, store: PageStore | None = None, mark: bytes = b"") -> None:
        self.engine = engine
        self.mark = mark
        """Which pages it stands on, the last one given included."""
        self._store = store

    def page(self) -> bytes | None:
        """What is to be added to the state now; None where that is nothing."""
        page = None if self._store is None else self._store.page()
        if page is not None:
            self.mark = _mark(self.mark, page)
        return page

    def begin_again(self) -> None:
        """Stand on no page: the next one is to hold everything."""
        if self._store is not None:
            self._store.begin_again()
            self.mark = b""


class Memories:
    """Engines by the pages they stand on; for any other state one is made of its pages.

    A state without pages may begin with messages all the same: an agent without a checkpointer is
    given its history anew. It goes on from the memory of whoever sent just these.
    """

    def __init__(self, engine: Callable[[PageStore], Engine]) -> None:
        self._engine = engine
        self._kept: OrderedDict[bytes, tuple[Memory, bytes]] = OrderedDict()
        self._by_history: dict[bytes, bytes] = {}
        self._lock = Lock()

    def take(self, pages: Sequence[bytes], messages: Sequence[bytes]) -> Memory:
        """The memory of a state with these messages; nobody else has it until it is given back.

        ``ValueError`` where a page cannot be read.
        """
        mark = reduce(_mark, pages, b"")
        with self._lock:
            memory = self._pop(mark) if pages else self._of_history(messages)
        if memory is None:
            store = PageStore(pages)
            memory = Memory(self._engine(store), store, mark)
        elif not pages:
            memory.begin_again()
        return memory

    def give_back(self, memory: Memory, messages: Iterable[bytes]) -> None:
        """Keep a memory for the state that holds all of its pages, and now these messages."""
        history = reduce(_mark, messages, b"")
        with self._lock:
            self._pop(memory.mark)
            self._kept[memory.mark] = memory, history
            self._by_history[history] = memory.mark
            while len(self._kept) > _KEPT:
                self._pop(next(iter(self._kept)))

    def _pop(self, mark: bytes) -> Memory | None:
        memory, history = self._kept.pop(mark, (None, b""))
        if self._by_history.get(history) == mark:
            del self._by_history[history]
        return memory

    def _of_history(self, messages: Sequence[bytes]) -> Memory | None:
        for history in reversed(list(accumulate(messages, _mark, initial=b""))[1:]):
            mark = self._by_history.get(history)
            if mark is not None:
                return self._pop(mark)
        return None


def _mark(before: bytes, part: bytes) -> bytes:
    return blake2b(before + part, digest_size=16).digest()
