"""How is a database file opened, so that it is private, ours, and safe in threads and forks?"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from pathlib import Path
from types import TracebackType

from kvagent.stores.fork import rest_in_forks
from kvagent.stores.store import StoreError

SCHEMA_VERSION = 1
APPLICATION_ID = 0x6B766167  # "kvag": a database that others made is never written to
# The id is the order of arrival. The digest stands for the value in the index, so that this stays
# small. A namespace is kept as its UTF-8 bytes, since not every Python string is text for SQLite.
_SCHEMA = """
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    namespace BLOB NOT NULL,
    key BLOB NOT NULL,
    digest BLOB NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (namespace, key, digest)
)
"""
_WAL_LIMIT = 16 << 20  # bytes that the -wal file may keep after a large batch
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked: end that one, or choose another path",
    sqlite3.SQLITE_FULL: "the disk is full: make room, or choose another path",
    sqlite3.SQLITE_IOERR: "the disk is full or fails: make room, or choose another path",
    sqlite3.SQLITE_READONLY: "it may only be read: allow writing, or choose another path",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: allow writing there, or choose another path",
    sqlite3.SQLITE_CORRUPT: "it is damaged: move it away, or choose another path",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database: move it away, or choose another path",
}
_LEAST_SIZE = 512  # bytes: the smallest page that a database can have
# Closing any descriptor of a file drops the locks that SQLite holds on it for the whole process. So
# no thread may open the file while another still has the descriptor that created it. Who holds this
# lock holds that of a connection too, and so it is free whenever the process forks.
_creating = threading.Lock()


class Connection:
    """One connection to the file, opened when first used; `with` lends it to one thread at a time.

    `timeout` is how long, in seconds, to wait for other threads and then again for other processes.
    What goes wrong inside the `with` is rolled back; errors of SQLite leave as a StoreError.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.lock = threading.RLock()
        self._path = path
        self._timeout = timeout
        self._open: sqlite3.Connection | None = None
        self._closed = False
        rest_in_forks(self)

    def __enter__(self) -> sqlite3.Connection:
        if not self.lock.acquire(timeout=self._timeout):
            raise StoreError(
                f"the store {self._path} is busy with other threads: give it a longer timeout"
            )
        try:
            return self._opened()
        except BaseException as error:
            self.lock.release()
            # A RuntimeError is what pathlib made of a loop of links before Python 3.13.
            if isinstance(error, sqlite3.Error | OSError | RuntimeError):
                raise StoreError(_explain(self._path, error)) from error
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self._undo(error)
        finally:
            self.lock.release()
        if isinstance(error, sqlite3.Error):
            raise StoreError(_explain(self._path, error)) from error

    def close(self) -> None:
        """Close for good, unless a thread uses the connection for longer than the timeout."""
        if self.lock.acquire(timeout=self._timeout):
            try:
                self._closed = True
                self.rest()
            finally:
                self.lock.release()

    def rest(self) -> None:
        """Close until it is used again."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"the store {self._path} was closed: open a new one")
        if self._open is None:
            self._open = _open(self._path, self._timeout)
        return self._open

    def _undo(self, error: BaseException) -> None:
        """Close, which rolls back; the next one opens what may have been put right by then."""
        busy = isinstance(error, sqlite3.Error) and _code(error) == sqlite3.SQLITE_BUSY
        if not busy or (self._open is not None and self._open.in_transaction):
            self.rest()


def _open(path: Path, timeout: float) -> sqlite3.Connection:
    path = path.resolve()  # else SQLite would create what a link leads to, with any mode
    _make_folder(path.parent)
    with _creating:
        _create(path)
    connection = sqlite3.connect(
        path, timeout=timeout, isolation_level=None, check_same_thread=False
    )
    try:
        _settle(connection, path, time.monotonic() + timeout)
        _make_private(path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_folder(folder: Path) -> None:
    """Make the folder, and those above it that are missing, each with mode 0700.

    `parents=True` would give that mode only to the last.
    """
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _create(path: Path) -> None:
    """Make the file with mode 0600 whatever the umask, or look at the one that is there.

    SQLite gives its -wal and -shm files the mode of the file itself.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"the store {path} is not a file: choose another path") from None
        if 0 < found.st_size < _LEAST_SIZE:  # SQLite would take it for empty, and write over it
            raise StoreError(
                f"the store {path} is no SQLite database: move it away, or choose another path"
            ) from None


def _make_private(path: Path) -> None:
    """Take the file, now that it is known to be ours, from others who may read or write it."""
    if os.name == "posix" and path.stat().st_mode & 0o077:
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            if name.exists():
                name.chmod(0o600)


def _settle(connection: sqlite3.Connection, path: Path, deadline: float) -> None:
    """Make the schema where there is none, and refuse a database that has another one."""
    while True:
        try:
            if not _is_ours(connection, path):
                _create_schema(connection)
            return
        except sqlite3.OperationalError as error:
            # SQLite does not make processes wait that turn a new file into a WAL one all at once.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.005)


def _is_ours(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True where the schema is the one known here, False for an empty database."""
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if (application, version) == (APPLICATION_ID, SCHEMA_VERSION):
        return True
    if (application, version, tables) == (0, 0, 0):
        return False
    if application != APPLICATION_ID:
        raise StoreError(f"the store {path} is another program's database: choose another path")
    raise StoreError(
        f"the store {path} was written by another version of kvagent (its schema is {version}, "
        f"this one knows {SCHEMA_VERSION}): update kvagent, or choose another path"
    )


def _create_schema(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster.
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            connection.execute(_SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _explain(path: Path, error: sqlite3.Error | OSError | RuntimeError) -> str:
    if not isinstance(error, sqlite3.Error):
        reason = getattr(error, "strerror", None) or error
        return f"the store {path} cannot be opened ({reason}): choose another path"
    remedy = _REMEDIES.get(_code(error), "move it away, or choose another path")
    return f"the store {path} fails ({error}): {remedy}"


def _code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 where the error is not SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
