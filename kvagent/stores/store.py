"""What is a store, and what may be put into one?

A store is a cache that may forget: whoever reads from one must get on without what is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable


class StoreError(Exception):
    """A store cannot do its work: which one, why, and what to do; never what is in it."""


@runtime_checkable
class Store(Protocol):
    """Multi-valued memory: under (namespace, key) lie values in the order they were added.

    Values are small to large byte strings: entries of a ledger, originals of shortened results.
    Nothing of one namespace can be read from another. All methods may be called from any thread.
    """

    @property
    def durable(self) -> bool:
        """True: what is added survives the process, and other processes may read it."""

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        """Keep `values` under the key. A value that is there already is not kept twice."""

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        """Return the values under the key, oldest first; () when there is none."""

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add many (key, value) pairs at once: all of them or, where it fails, none."""

    def close(self) -> None:
        """Release what the store holds. Closing twice is fine."""


def check(namespace: object, items: Iterable[tuple[object, object]]) -> None:
    """Raise ValueError for what no store can keep: a namespace that is no str, other than bytes."""
    if not isinstance(namespace, str):
        raise _misuse("a store's namespace is a str", namespace)
    for key, value in items:
        if not isinstance(key, bytes):
            raise _misuse("a store's key is bytes", key)
        if not isinstance(value, bytes):
            raise _misuse("a store keeps bytes", value)


def check_max_bytes(max_bytes: object, least: int) -> int:
    """Return `max_bytes`, or raise ValueError where it is no number of at least `least` bytes."""
    if not isinstance(max_bytes, int) or isinstance(max_bytes, bool):
        raise _misuse("max_bytes is a whole number of bytes", max_bytes)
    if max_bytes < least:
        raise ValueError(f"max_bytes is at least {least:,} here, but got {max_bytes:,}")
    return max_bytes


def _misuse(rule: str, got: object) -> ValueError:
    # The type only: the thing itself may be a prompt.
    return ValueError(f"{rule}, but got a value of type {type(got).__name__}")
