"""Does the SQLite store lose nothing among threads and processes, and keep its bound?"""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvagent.stores import StoreError
from kvagent.stores.sqlite import SQLiteStore

WRITER = """
import sys
from kvagent.stores.sqlite import SQLiteStore

path, writer, adds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
store = SQLiteStore(path, timeout=60)
sys.stdin.readline()  # until all are there
for number in range(adds):
    store.add("shared", b"%d" % (number % 10), b"%d of %d" % (number, writer))
    assert b"%d of %d" % (number, writer) in store.get("shared", b"%d" % (number % 10))
store.close()
"""


def test_what_is_added_survives(tmp_path: Path) -> None:
    first = SQLiteStore(tmp_path / "store.db")
    first.add("a", b"key", b"1", b"2")
    first.close()
    second = SQLiteStore(tmp_path / "store.db")
    second.add("a", b"key", b"3")
    assert second.get("a", b"key") == (b"1", b"2", b"3")
    second.close()


def test_making_a_store_touches_no_file(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "folder" / "store.db")
    store.close()
    assert list(tmp_path.iterdir()) == []


def test_two_stores_at_one_path_see_each_other(tmp_path: Path) -> None:
    one, two = SQLiteStore(tmp_path / "store.db"), SQLiteStore(tmp_path / "." / "store.db")
    for number in range(20):
        (one, two)[number % 2].add("a", b"key", b"%d" % number)
        assert len(two.get("a", b"key")) == len(one.get("a", b"key")) == number + 1
    one.close()
    assert len(two.get("a", b"key")) == 20
    two.close()


def test_threads_lose_nothing(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db", timeout=60)

    def add(thread: int) -> None:
        for number in range(50):
            value = b"%d of %d" % (number, thread)
            store.add("a", b"%d" % (number % 5), value)
            assert value in store.get("a", b"%d" % (number % 5))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert sum(len(store.get("a", b"%d" % key)) for key in range(5)) == 400
    store.close()


def test_processes_lose_nothing(tmp_path: Path) -> None:
    """They also create the file and its schema all at once."""
    path = tmp_path / "folder" / "store.db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, path, str(writer), "200"], stdin=subprocess.PIPE
        )
        for writer in range(4)
    ]
    for writer in writers:
        assert writer.stdin
        writer.stdin.write(b"go\n")
        writer.stdin.close()
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0, 0]
    store = SQLiteStore(path)
    for key in range(10):
        expected = {
            b"%d of %d" % (number, writer) for number in range(key, 200, 10) for writer in range(4)
        }
        assert set(store.get("shared", b"%d" % key)) == expected
    store.close()


def test_a_batch_is_all_or_nothing(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    store.add("a", b"key", b"before")
    with store._writer as connection:
        connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(StoreError, match="the disk is full"):
        store.batch("a", [(b"%d" % number, bytes(9_000)) for number in range(100)])
    assert store.get("a", b"0") == ()
    assert store.get("a", b"key") == (b"before",)
    store.add("a", b"key", b"after")
    assert store.get("a", b"key") == (b"before", b"after")
    store.close()


def test_a_killed_writer_leaves_a_store_that_works(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    script = """
import os, sys
from kvagent.stores.sqlite import SQLiteStore
store = SQLiteStore(sys.argv[1])
store.add("a", b"key", b"committed")
with store._writer as connection:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM entry")
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script, path], check=False)
    store = SQLiteStore(path)
    assert store.get("a", b"key") == (b"committed",)
    store.add("a", b"key", b"later")
    store.close()


def test_the_oldest_go_when_the_file_is_full(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db", max_bytes=1 << 18)
    for number in range(2_000):
        store.add("a", b"%06d" % number, os.urandom(400))
    kept = [number for number in range(2_000) if store.get("a", b"%06d" % number)]
    assert kept == list(range(kept[0], 2_000))
    assert 250 < len(kept) < 600
    store.close()
    assert (tmp_path / "store.db").stat().st_size <= (1 << 18) + (1 << 14)


def test_large_values_are_pruned_too(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db", max_bytes=1 << 20)
    for number in range(20):
        store.add("a", b"%d" % number, os.urandom(150_000))
    kept = [number for number in range(20) if store.get("a", b"%d" % number)]
    assert kept == list(range(kept[0], 20))
    assert 4 <= len(kept) <= 6
    store.add("a", b"too large", bytes(1 << 20))
    assert store.get("a", b"too large") == ()
    assert store.get("a", b"19")
    store.close()


def test_short_lived_writers_prune_as_well(tmp_path: Path) -> None:
    """Each writes far less than what a long-lived one would wait for before it measures."""
    path = tmp_path / "store.db"
    wide = SQLiteStore(path)
    wide.batch("a", [(b"%d" % number, bytes([number]) * 10_000) for number in range(40)])
    wide.close()
    for number in range(100):
        store = SQLiteStore(path, max_bytes=1 << 17)
        store.add("a", b"new", b"%d" % number)
        store.close()
    store = SQLiteStore(path)
    kept = [number for number in range(40) if store.get("a", b"%d" % number)]
    assert kept == list(range(kept[0], 40))
    assert 5 <= len(kept) <= 14
    assert len(store.get("a", b"new")) == 100
    store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    store.add("a", b"key", b"value")
    store.close()
    with pytest.raises(StoreError, match="was closed: open a new one"):
        store.get("a", b"key")
    with pytest.raises(StoreError, match="was closed: open a new one"):
        store.add("a", b"key", b"value")


def test_a_forgotten_store_closes_its_file(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    store.add("a", b"key", b"value")
    store.get("a", b"key")
    del store
    gc.collect()
    # The last one to close removes the companions.
    assert [entry.name for entry in tmp_path.iterdir()] == ["store.db"]


def test_a_value_is_kept_once_among_stores(tmp_path: Path) -> None:
    one, two = SQLiteStore(tmp_path / "store.db"), SQLiteStore(tmp_path / "store.db")
    for store in (one, two, one):
        store.add("a", b"key", b"value" * 1_000)
    with sqlite3.connect(tmp_path / "store.db") as plain:
        assert plain.execute("SELECT count(*) FROM entry").fetchone() == (1,)
    plain.close()
    one.close()
    two.close()


def test_a_path_may_start_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SQLiteStore("~/store.db").path == tmp_path / "store.db"


@pytest.mark.parametrize("timeout", [-1, -0.5])
def test_arguments_that_mean_nothing_are_refused(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(ValueError, match="the timeout of a store is in seconds"):
        SQLiteStore(tmp_path / "store.db", timeout=timeout)
    with pytest.raises(ValueError, match="the path of a store names no folder"):
        SQLiteStore("~nobody of that name/store.db")
    for path in ("", "nul\0"):
        with pytest.raises(ValueError, match="the path of a store is empty or holds a NUL"):
            SQLiteStore(path)
