"""How is something remembered while the process lives, and no longer than there is room?"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from kvagent.stores.fork import rest_in_forks
from kvagent.stores.store import check, check_max_bytes

# What CPython needs around the bytes themselves: a key with its dict, a value in that dict.
_KEY_OVERHEAD = 400
_VALUE_OVERHEAD = 100


class MemoryStore:
    """A store in memory; over `max_bytes`, the key that was not used for longest goes first.

    The bound counts keys, values and about what Python needs around them. A value that is larger
    than the whole store is not kept; of a key that outgrows the store, the oldest values go.
    """

    durable = False

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = check_max_bytes(max_bytes, least=1)
        # The least recently used key stands first. The inner dict is a set that keeps its order.
        self._values: OrderedDict[tuple[str, bytes], dict[bytes, None]] = OrderedDict()
        self._bytes = 0
        self.lock = threading.RLock()
        rest_in_forks(self)

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        """Keep `values` under the key. ValueError: other than bytes."""
        self.batch(namespace, [(key, value) for value in values])

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add many (key, value) pairs. ValueError: other than bytes; then none is kept."""
        items = list(items)
        check(namespace, items)
        with self.lock:
            for key, value in items:
                self._add_one(namespace, key, value)

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        """Return the values under the key, oldest first; () when there is none."""
        address = (namespace, key)
        with self.lock:
            values = self._values.get(address)
            if values is None:
                return ()
            self._values.move_to_end(address)
            return tuple(values)

    def close(self) -> None:
        """Forget everything."""
        with self.lock:
            self._values.clear()
            self._bytes = 0

    def rest(self) -> None:
        """Nothing here is harmed by a fork: the child has a copy of its own."""

    def _add_one(self, namespace: str, key: bytes, value: bytes) -> None:
        address = (namespace, key)
        if _size_of_key(address) + _size_of(value) > self._max_bytes:
            return
        values = self._values.get(address)
        if values is None:
            values = self._values[address] = {}
            self._bytes += _size_of_key(address)
        else:
            self._values.move_to_end(address)
        if value not in values:
            values[value] = None
            self._bytes += _size_of(value)
        while self._bytes > self._max_bytes:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        address, values = next(iter(self._values.items()))
        if len(self._values) > 1:
            del self._values[address]
            self._bytes -= _size_of_key(address) + sum(map(_size_of, values))
        else:
            oldest = next(iter(values))
            del values[oldest]
            self._bytes -= _size_of(oldest)


def _size_of_key(address: tuple[str, bytes]) -> int:
    namespace, key = address
    return len(namespace) + len(key) + _KEY_OVERHEAD


def _size_of(value: bytes) -> int:
    return len(value) + _VALUE_OVERHEAD
