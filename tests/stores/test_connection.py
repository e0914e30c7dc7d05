"""Is the file private and ours, and does all that can be wrong with it leave as a sentence?"""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvagent.stores import StoreError
from kvagent.stores.connection import APPLICATION_ID, SCHEMA_VERSION
from kvagent.stores.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def filled(path: Path) -> Path:
    store = SQLiteStore(path)
    store.batch("a", [(b"%d" % number, os.urandom(300)) for number in range(500)])
    store.close()
    return path


@pytest.fixture(params=[0, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def run(script: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("umask")
def test_files_and_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    store = SQLiteStore(folder / "store.db")
    store.add("a", b"key", b"value")
    assert {entry.name: mode(entry) for entry in folder.iterdir()} == {
        "store.db": 0o600,
        "store.db-wal": 0o600,
        "store.db-shm": 0o600,
    }
    assert mode(folder) == mode(folder.parent) == 0o700
    store.close()


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o755)
    store = SQLiteStore(folder / "store.db")
    store.add("a", b"key", b"value")
    store.close()
    assert mode(folder) == 0o755


def test_a_file_that_others_could_read_is_made_private(filled: Path) -> None:
    first = SQLiteStore(filled)
    first.add("a", b"key", b"value")
    files = list(filled.parent.iterdir())
    assert len(files) == 3
    for file in files:
        file.chmod(0o644)
    second = SQLiteStore(filled)
    second.get("a", b"key")
    assert {mode(file) for file in files} == {0o600}
    first.close()
    second.close()


def test_a_link_that_leads_nowhere_is_followed_privately(tmp_path: Path, path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere" / "real.db")
    before = os.umask(0)
    try:
        store = SQLiteStore(path)
        store.add("a", b"key", b"value")
        store.close()
    finally:
        os.umask(before)
    assert mode(tmp_path / "elsewhere" / "real.db") == 0o600


def test_opening_a_second_time_keeps_the_locks_of_the_first(path: Path) -> None:
    """A process that closes any descriptor of a file loses its locks; another could take over."""
    first, second = SQLiteStore(path), SQLiteStore(path)
    first.add("a", b"key", b"value")
    second.get("a", b"key")
    second.close()
    take_over = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    print(connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
"""
    assert run(take_over, path) == "database is locked\n"
    first.close()
    assert run(take_over, path) == "delete\n"


def test_a_file_without_any_content_becomes_a_store(path: Path) -> None:
    path.touch()
    store = SQLiteStore(path)
    store.add("a", b"key", b"value")
    assert store.get("a", b"key") == (b"value",)
    store.close()


def state_of(path: Path) -> tuple[int, bytes] | None:
    try:
        return mode(path), path.read_bytes() if path.is_file() else b""
    except (OSError, RuntimeError):
        return None


def assert_fails(path: Path, sentence: str) -> None:
    """Reading and writing both raise, the file stays as it is, the text quotes no value."""
    before = state_of(path)
    store = SQLiteStore(path, timeout=0)
    with pytest.raises(StoreError, match=sentence) as read:
        store.get("a", b"the key")
    with pytest.raises(StoreError, match=sentence) as written:
        store.add("a", b"the key", b"the value")
    store.close()
    for raised in (read, written):
        assert path.name in str(raised.value)
        assert "choose another path" in str(raised.value)
        assert "the value" not in str(raised.value)
    assert state_of(path) == before


@pytest.mark.parametrize("size", [1, 50, 511, 512, 4_096, 100_000])
def test_a_file_of_random_bytes(path: Path, size: int) -> None:
    path.write_bytes(random.Random(size).randbytes(size))
    path.chmod(0o644)  # of a file that is not ours, not even the mode is touched
    assert_fails(path, "is no SQLite database")


def test_a_damaged_header(filled: Path) -> None:
    content = bytearray(filled.read_bytes())
    content[16:100] = bytes(84)
    filled.write_bytes(content)
    assert_fails(filled, "fails")


def test_damaged_pages(filled: Path) -> None:
    content = filled.read_bytes()
    filled.write_bytes(content[:4_096] + random.Random(0).randbytes(len(content) - 4_096))
    assert_fails(filled, "it is damaged")


def test_a_truncated_database(filled: Path) -> None:
    os.truncate(filled, 9_000)
    store = SQLiteStore(filled)
    with pytest.raises(StoreError, match="it is damaged"):
        store.batch("a", [(b"%d" % number, os.urandom(300)) for number in range(500)])
    store.close()


def test_a_schema_of_another_version(filled: Path) -> None:
    with sqlite3.connect(filled) as plain:
        plain.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    plain.close()
    assert_fails(filled, r"another version of kvagent \(its schema is 2, this one knows 1\)")


def test_a_database_of_another_program(path: Path) -> None:
    with sqlite3.connect(path) as plain:
        plain.execute("CREATE TABLE entry (id)")
    plain.close()
    assert_fails(path, "another program's database")


def test_a_database_that_lost_its_table(filled: Path) -> None:
    with sqlite3.connect(filled) as plain:
        plain.execute("DROP TABLE entry")
        assert plain.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    plain.close()
    assert_fails(filled, "no such table: entry")


def test_a_folder_instead_of_a_file(path: Path) -> None:
    path.mkdir(mode=0o755)
    assert_fails(path, "is not a file")
    assert mode(path) == 0o755


def test_a_pipe_instead_of_a_file(path: Path) -> None:
    os.mkfifo(path)
    assert_fails(path, "is not a file")


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_fails(tmp_path / "file" / "store.db", "cannot be opened")
    assert_fails(tmp_path / "file" / "folder" / "store.db", "cannot be opened")


def test_a_link_that_leads_to_itself(path: Path) -> None:
    path.symlink_to(path)
    assert_fails(path, "cannot be opened")


def test_a_path_that_no_file_can_have(tmp_path: Path) -> None:
    assert_fails(tmp_path / ("x" * 300), "cannot be opened")


def test_a_store_that_another_process_keeps_locked(filled: Path) -> None:
    lock = sqlite3.connect(filled, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    store = SQLiteStore(filled, timeout=0)
    with pytest.raises(StoreError, match="another process keeps it locked"):
        store.add("a", b"key", b"value")
    assert store.get("a", b"0") != ()  # who writes does not keep others from reading
    lock.execute("ROLLBACK")
    lock.close()
    store.add("a", b"key", b"value")
    assert store.get("a", b"key") == (b"value",)
    store.close()


def test_a_store_that_another_process_locks_while_it_is_made(path: Path) -> None:
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    store = SQLiteStore(path, timeout=0)
    with pytest.raises(StoreError, match="another process keeps it locked"):
        store.get("a", b"key")
    lock.execute("ROLLBACK")
    lock.close()
    assert store.get("a", b"key") == ()
    store.close()


def test_many_make_the_same_store_at_once(tmp_path: Path) -> None:
    def make(path: Path, barrier: threading.Barrier) -> None:
        store = SQLiteStore(path, timeout=60)
        barrier.wait()
        store.add("a", b"key", b"%d" % threading.get_ident())
        store.close()

    with ThreadPoolExecutor(8) as pool:
        for number in range(10):
            path, barrier = tmp_path / f"{number}.db", threading.Barrier(8)
            made = [pool.submit(make, path, barrier) for _ in range(8)]
            assert [one.result() for one in made] == [None] * 8
            store = SQLiteStore(path)
            assert len(store.get("a", b"key")) == 8
            store.close()


def test_who_writes_to_a_new_file_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself does not wait here: several processes that make one store meet this."""
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        writer.close()

    monkeypatch.setattr("kvagent.stores.connection.time.sleep", sleep)
    store = SQLiteStore(path, timeout=10)
    assert store.get("a", b"key") == ()
    assert len(waited) == 1
    store.close()


def test_a_thread_that_holds_the_connection_does_not_block_others_for_ever(filled: Path) -> None:
    store = SQLiteStore(filled, timeout=0)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with store._writer:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    with pytest.raises(StoreError, match="busy with other threads"):
        store.add("a", b"key", b"value")
    assert store.get("a", b"0") != ()
    done.set()
    thread.join()
    store.close()


def test_a_database_that_may_only_be_read(filled: Path) -> None:
    store = SQLiteStore(filled)
    with store._writer as connection:
        connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="it may only be read"):
        store.add("a", b"key", b"value")
    assert store.get("a", b"0") != ()
    store.close()


# Permissions do not bind root, so the script becomes someone else after its imports.
AS_NOBODY = """
import os, sys
from kvagent.stores import StoreError
from kvagent.stores.sqlite import SQLiteStore
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
store = SQLiteStore(sys.argv[1])
for call in (lambda: store.get("a", b"key"), lambda: store.add("a", b"key", b"value")):
    try:
        print(call())
    except StoreError as error:
        print(error)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can look into, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_a_folder_that_may_only_be_read(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    said = run(AS_NOBODY, open_folder / "store.db")
    assert said.count("cannot be opened (Permission denied): choose another path") == 2
    said = run(AS_NOBODY, open_folder / "folder" / "store.db")
    assert said.count("cannot be opened (Permission denied): choose another path") == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another user")
def test_a_file_of_another_user(open_folder: Path) -> None:
    path = open_folder / "store.db"
    store = SQLiteStore(path)
    store.add("a", b"key", b"value")
    store.close()
    assert run(AS_NOBODY, path).count("choose another path") == 2
    open_folder.chmod(0o777)
    path.chmod(0o666)  # not private, and not ours to make so
    assert run(AS_NOBODY, path).count("cannot be opened (Operation not permitted)") == 2


@pytest.mark.parametrize("limit", [20_000, 200_000])
def test_a_disk_that_is_full(path: Path, limit: int) -> None:
    """The limit on the size of files makes the very same calls fail."""
    script = """
import os, resource, sys
from kvagent.stores import StoreError
from kvagent.stores.sqlite import SQLiteStore
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
store = SQLiteStore(sys.argv[1])
kept = []
try:
    for number in range(2_000):
        store.add("a", b"%d" % number, os.urandom(400))
        kept.append(number)
except StoreError as error:
    print(error)
assert all(store.get("a", b"%d" % number) for number in kept)
print(len(kept))
"""
    said, kept = run(script, path, str(limit)).splitlines()
    assert "the disk is full" in said
    if path.stat().st_size:
        store = SQLiteStore(path)
        assert [bool(store.get("a", b"%d" % number)) for number in range(int(kept))].count(
            False
        ) == 0
        store.add("a", b"key", b"there is room again")
        store.close()


def test_a_store_put_right_is_used_again(path: Path) -> None:
    path.write_bytes(b"no database" * 1_000)
    store = SQLiteStore(path)
    with pytest.raises(StoreError):
        store.add("a", b"key", b"value")
    path.unlink()
    store.add("a", b"key", b"value")
    assert store.get("a", b"key") == (b"value",)
    store.close()


def test_an_interrupted_write_is_rolled_back(filled: Path) -> None:
    store = SQLiteStore(filled)

    def interrupted() -> None:
        with store._writer as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM entry")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store.get("a", b"0") != ()
    store.add("a", b"key", b"value")
    store.close()
