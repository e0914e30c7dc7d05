"""Where do ledgers and originals live? In memory, or in a file; and in memory when the file fails.

`open_store` makes a store of whatever a user gives. `SQLiteStore` is in `kvagent.stores.sqlite`,
so that sqlite3 is imported only where it is used.
"""

from __future__ import annotations

import os
import re

from kvagent.stores.memory import MemoryStore
from kvagent.stores.resilient import Resilient
from kvagent.stores.store import Store, StoreError

__all__ = ["MemoryStore", "Resilient", "Store", "StoreError", "open_store"]

_WAYS = (
    'give a path, "sqlite:///path", ":memory:", None for memory, '
    "or an object with add, get, batch, close and durable"
)


def open_store(spec: str | os.PathLike[str] | Store | None) -> Store:
    """Return the store that `spec` names. No file is opened or created before the store is used.

    - None, ":memory:" or "memory:": a new MemoryStore.
    - a path, or "sqlite:///path": a SQLiteStore at that path, wrapped in Resilient. As in other
      URLs of this kind, three slashes stand before a relative path and four before an absolute one.
    - an object with the methods of Store: itself, in a Resilient. Closing one closes the other.

    ValueError for anything else.
    """
    if spec is None:
        return MemoryStore()
    if isinstance(spec, MemoryStore | Resilient):
        return spec  # which never fail
    if isinstance(spec, str):
        return _from_text(spec)
    if isinstance(spec, os.PathLike):
        return _at_path(os.fspath(spec))
    if not isinstance(spec, type) and isinstance(spec, Store):
        return Resilient(spec)
    raise ValueError(f"a value of type {type(spec).__name__} is no store: {_WAYS}")


def _from_text(spec: str) -> Store:
    path = spec.removeprefix("sqlite:///")
    if path in {":memory:", "memory:"}:
        return MemoryStore()
    if not path.strip():
        raise ValueError(f"the store's name is empty: {_WAYS}")
    # The scheme alone is quoted: what follows may hold a password.
    if scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        raise ValueError(f'kvagent knows no store of the kind "{scheme[0]}…": {_WAYS}')
    return _at_path(path)


def _at_path(path: str) -> Store:
    from kvagent.stores.sqlite import SQLiteStore

    return Resilient(SQLiteStore(path))
