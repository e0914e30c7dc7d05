"""How is something remembered beyond the process, and shared with others that run beside it?"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable
from contextlib import closing
from hashlib import blake2b
from os import PathLike
from pathlib import Path

from kvagent.stores.connection import Connection
from kvagent.stores.store import check, check_max_bytes

_ADD = "INSERT OR IGNORE INTO entry (namespace, key, digest, value) VALUES (?, ?, ?, ?)"
_GET = "SELECT id, value FROM entry WHERE namespace = ? AND key = ?"
_OLDEST = "SELECT id, length(namespace) + length(key) + length(value) FROM entry ORDER BY id"
_PRUNE = "DELETE FROM entry WHERE id <= ?"
_USED = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_ROW_OVERHEAD = 100  # bytes of a row and its entry in the index besides namespace, key and value
_STEPS_AT_ONCE = 4

_Row = tuple[bytes, bytes, bytes, bytes]


class SQLiteStore:
    """A store in one SQLite file, which many threads and processes may use at once.

    The file and its -wal and -shm companions have mode 0600, whatever the umask; a missing folder
    is made with 0700. Nothing is opened or created before the first use. When the file holds more
    than `max_bytes`, what was added first goes first, a little with each write. `timeout` is how
    long, in seconds, to wait for others: once for threads, once for processes.

    `get`, `add` and `batch` raise StoreError where the file is full, locked, read-only, corrupt or
    of another schema; `kvagent.stores.Resilient` turns that into one warning.
    """

    durable = True

    def __init__(
        self, path: str | PathLike[str], *, max_bytes: int = 1 << 30, timeout: float = 2.0
    ) -> None:
        if not str(path) or "\0" in str(path):
            raise ValueError("the path of a store is empty or holds a NUL: name a file")
        if timeout < 0:
            raise ValueError(f"the timeout of a store is in seconds, from 0 on, but got {timeout}")
        self._max_bytes = check_max_bytes(max_bytes, least=1 << 16)
        try:
            self.path = Path(path).expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(f"the path of a store names no folder: {error}") from None
        # A reader of its own: reading never waits for a writer that waits for another process.
        self._reader = Connection(self.path, timeout)
        self._writer = Connection(self.path, timeout)
        # Small, so that no single write has much to prune.
        self._step = min(max_bytes // 64, 1 << 15)
        # As if a step had been written: many short-lived processes must prune as well.
        self._unmeasured = self._step
        weakref.finalize(self, _close, self._reader, self._writer)

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        """Keep `values` under the key. ValueError: other than bytes; StoreError."""
        self.batch(namespace, [(key, value) for value in values])

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Add many (key, value) pairs in one transaction. ValueError: not bytes; StoreError."""
        items = list(items)
        check(namespace, items)
        name = _name(namespace)
        rows = [
            (name, key, blake2b(value, digest_size=16).digest(), value)
            for key, value in items
            if len(value) < self._max_bytes
        ]
        if not rows:
            return
        with self._writer as connection:
            _insert(connection, rows)
            self._unmeasured += sum(_size(row) for row in rows)
            if self._unmeasured >= self._step:
                self._prune(connection)

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        """Return the values under the key, oldest first; () when there is none. StoreError."""
        with self._reader as connection:
            rows = connection.execute(_GET, (_name(namespace), key)).fetchall()
        if len(rows) > 1:
            rows.sort()  # in the index they lie by digest
        return tuple([value for _, value in rows])

    def close(self) -> None:
        """Close the file. Whatever is asked of the store afterwards raises StoreError."""
        _close(self._reader, self._writer)

    def _prune(self, connection: sqlite3.Connection) -> None:
        """Bring the file a step below its bound, or nearer: then the next write goes on."""
        self._unmeasured = 0
        if _used(connection) <= self._max_bytes:
            return
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(_STEPS_AT_ONCE):
            # Measured anew each time: rows share pages, and another process may have pruned.
            excess = _used(connection) - (self._max_bytes - self._step)
            if excess <= 0:
                break
            _forget_oldest(connection, min(excess, self._step))
        else:
            self._unmeasured = self._step
        connection.execute("COMMIT")


def _insert(connection: sqlite3.Connection, rows: list[_Row]) -> None:
    if len(rows) == 1:
        connection.execute(_ADD, rows[0])
        return
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_ADD, rows)
    connection.execute("COMMIT")


def _forget_oldest(connection: sqlite3.Connection, size: int) -> None:
    last = 0  # ids begin at 1
    with closing(connection.execute(_OLDEST)) as oldest:
        for row_id, row_size in oldest:
            last = row_id
            size -= row_size + _ROW_OVERHEAD
            if size <= 0:
                break
    connection.execute(_PRUNE, (last,))


def _used(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file that are in use; the rest is used before the file grows."""
    used: int = connection.execute(_USED).fetchone()[0]
    return used


def _size(row: _Row) -> int:
    namespace, key, _, value = row
    return len(namespace) + len(key) + len(value) + _ROW_OVERHEAD


def _name(namespace: str) -> bytes:
    # Half a surrogate pair is no text, but a namespace may come from anywhere.
    return namespace.encode("utf-8", "surrogatepass")


def _close(*connections: Connection) -> None:
    for connection in connections:
        connection.close()
