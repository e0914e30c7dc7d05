"""Does kvagent go on in memory, whatever happens to the store, and say so exactly once?"""

from __future__ import annotations

import itertools
import logging
import sqlite3
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kvagent.stores import MemoryStore, Resilient, Store
from kvagent.stores.sqlite import SQLiteStore


class Flaky:
    """A store in memory that raises what it is told to; None: it works."""

    durable = True

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.read_error: BaseException | None = None
        self.write_error: BaseException | None = None
        self.calls = 0

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        self.batch(namespace, [(key, value) for value in values])

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        self.calls += 1
        if self.write_error is not None:
            raise self.write_error
        self.memory.batch(namespace, items)

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        self.calls += 1
        if self.read_error is not None:
            raise self.read_error
        return self.memory.get(namespace, key)

    def close(self) -> None:
        self.calls += 1
        if self.write_error is not None:
            raise self.write_error


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def flaky() -> Flaky:
    return Flaky()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(flaky: Flaky, clock: Clock) -> Resilient:
    return Resilient(flaky, clock=clock)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def broken_stores(folder: Path) -> dict[str, Path]:
    """Paths at which no store can be, each for a reason of its own."""
    paths = {
        name: folder / name for name in ("random", "foreign", "newer", "folder", "under a file")
    }
    paths["random"].write_bytes(b"\x17" * 5_000)
    paths["folder"].mkdir()
    paths["under a file"] /= "store.db"
    (folder / "under a file").touch()
    for name in ("foreign", "newer"):
        if name == "newer":
            made = SQLiteStore(paths[name])
            made.add("a", b"key", b"value")
            made.close()
        with sqlite3.connect(paths[name]) as plain:
            plain.execute("PRAGMA user_version = 99")
            plain.execute("CREATE TABLE other (id)")
        plain.close()
    return paths


@pytest.mark.parametrize("name", ["random", "foreign", "newer", "folder", "under a file"])
def test_a_path_that_is_no_store(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = broken_stores(tmp_path)[name]
    told: list[str] = []
    store = Resilient(SQLiteStore(path, timeout=0), warn=told.append)
    assert store.problem is None  # nothing was opened yet
    for number in range(5):
        store.add("secret tenant", b"secret key", b"secret %d" % number)
        store.batch("secret tenant", [(b"secret key", b"secret batch")])
        assert len(store.get("secret tenant", b"secret key")) == number + 2
    store.close()
    assert told == [store.problem]
    assert warnings(caplog) == [f"kvagent goes on in memory: {store.problem}"]
    assert str(path) in told[0]
    assert "secret" not in caplog.text


def test_a_full_store_can_still_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sqlite = SQLiteStore(tmp_path / "store.db")
    store = Resilient(sqlite)
    store.add("a", b"old", b"value")
    with sqlite._writer as connection:
        connection.execute("PRAGMA max_page_count = 10")
    for number in range(50):
        store.add("a", b"%d" % number, bytes([number]) * 3_000)
    assert all(store.get("a", b"%d" % number) for number in range(50))
    assert store.get("a", b"old") == (b"value",)
    assert len(warnings(caplog)) == 1
    assert "the disk is full" in warnings(caplog)[0]
    store.close()


def test_a_store_that_stays_locked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Resilient(SQLiteStore(tmp_path / "store.db", timeout=0))
    store.add("a", b"key", b"in the store")
    lock = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    for number in range(5):
        store.add("a", b"key", b"%d" % number)
    lock.close()
    assert store.get("a", b"key") == (b"in the store", b"0", b"1", b"2", b"3", b"4")
    assert len(warnings(caplog)) == 1
    assert "another process keeps it locked" in warnings(caplog)[0]
    store.close()


def test_a_store_that_breaks_while_it_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Resilient(SQLiteStore(tmp_path / "store.db"))
    store.add("a", b"key", b"before")
    with sqlite3.connect(tmp_path / "store.db") as plain:
        plain.execute("DROP TABLE entry")
    plain.close()
    assert store.get("a", b"key") == ()
    store.add("a", b"key", b"after")
    assert store.get("a", b"key") == (b"after",)
    assert len(warnings(caplog)) == 1
    store.close()


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("secret"),
        OSError(5, "Input/output error"),
        MemoryError(),
        sqlite3.DatabaseError("secret"),
        ValueError("secret"),
        TypeError("secret"),
        KeyError(b"secret"),
        AssertionError(),
    ],
)
def test_whatever_is_raised(
    store: Resilient, flaky: Flaky, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store.add("a", b"key", b"1")
    flaky.read_error = flaky.write_error = error
    store.add("a", b"key", b"2")
    store.batch("a", [(b"key", b"3")])
    assert store.get("a", b"key") == (b"2", b"3")
    store.close()
    assert len(warnings(caplog)) == 1
    assert type(error).__name__ in warnings(caplog)[0] or isinstance(error, OSError)
    assert not any("secret" in text for text in warnings(caplog))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_what_is_no_failure_of_the_store_passes(
    store: Resilient, flaky: Flaky, error: BaseException
) -> None:
    flaky.read_error = flaky.write_error = error
    with pytest.raises(type(error)):
        store.get("a", b"key")
    with pytest.raises(type(error)):
        store.add("a", b"key", b"value")
    assert store.problem is None


def test_get_asks_both(store: Resilient, flaky: Flaky) -> None:
    store.add("a", b"key", b"1", b"2")
    flaky.write_error = RuntimeError()
    store.add("a", b"key", b"2", b"3")
    assert store.get("a", b"key") == (b"1", b"2", b"3")


def test_a_failed_store_is_left_alone_for_longer_and_longer(
    store: Resilient, flaky: Flaky, clock: Clock
) -> None:
    flaky.write_error = RuntimeError()
    tries = []
    for _ in range(20_000):
        before = flaky.calls
        store.add("a", b"key", b"value")
        if flaky.calls > before:
            tries.append(clock.now)
        clock.now += 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert pauses[:4] == [30, 60, 120, 240]
    assert max(pauses) == 3_600


def test_a_store_that_works_again_is_used_again(
    store: Resilient, flaky: Flaky, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    flaky.write_error = RuntimeError()
    store.add("a", b"key", b"in memory")
    flaky.write_error = None
    clock.now += 29
    store.add("a", b"key", b"too early")
    clock.now += 1
    store.add("a", b"key", b"in the store")
    assert flaky.memory.get("a", b"key") == (b"in the store",)
    assert store.get("a", b"key") == (b"in the store", b"in memory", b"too early")
    flaky.write_error = RuntimeError()
    store.add("a", b"key", b"in memory again")
    assert b"in memory again" in store.get("a", b"key")
    assert len(warnings(caplog)) == 1


def test_one_thread_tries_again_for_all(store: Resilient, flaky: Flaky, clock: Clock) -> None:
    flaky.write_error = RuntimeError()
    store.add("a", b"key", b"value")
    clock.now += 30

    class Slow(Flaky):
        def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
            self.calls += 1
            store.add("a", b"key", b"while the first one waits")
            raise RuntimeError

    slow = Slow()
    store._store = slow
    store.add("a", b"key", b"value")
    assert slow.calls == 1


def test_many_threads_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    flaky = Flaky()
    flaky.read_error = flaky.write_error = RuntimeError()
    told: list[str] = []
    store = Resilient(flaky, warn=told.append)

    def work(thread: int) -> None:
        for number in range(50):
            store.add("a", b"%d" % thread, b"%d" % number)
            assert len(store.get("a", b"%d" % thread)) == number + 1

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert len(told) == len(warnings(caplog)) == 1


def test_a_callback_that_fails_harms_nothing(
    flaky: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    def warn(_: str) -> None:
        raise RuntimeError("the callback's own")

    store = Resilient(flaky, warn=warn)
    flaky.write_error = RuntimeError()
    store.add("a", b"key", b"value")
    assert store.get("a", b"key") == (b"value",)
    assert "the callback that is told of a failing store has failed itself" in caplog.text


def test_a_fallback_that_fails_harms_nothing(flaky: Flaky) -> None:
    fallback = Flaky()
    fallback.write_error = fallback.read_error = RuntimeError()
    store = Resilient(flaky, fallback)
    store.add("a", b"key", b"kept")
    flaky.write_error = RuntimeError()
    store.add("a", b"key", b"lost")
    assert store.get("a", b"key") == (b"kept",)
    store.close()


def test_a_store_that_answers_nonsense() -> None:
    class Nonsense(Flaky):
        def get(self, namespace: str, key: bytes) -> Any:
            return None

    store = Resilient(Nonsense())
    assert store.get("a", b"key") == ()
    assert store.problem == "a Nonsense raised TypeError"


def test_after_close_the_store_is_not_asked_again(store: Resilient, flaky: Flaky) -> None:
    store.add("a", b"key", b"value")
    store.close()
    calls = flaky.calls
    store.add("a", b"key", b"value")
    store.get("a", b"key")
    assert flaky.calls == calls
    assert store.problem is None


def test_misuse_does_not_count_as_a_failure(store: Resilient, flaky: Flaky) -> None:
    value: Any = "text"
    with pytest.raises(ValueError, match="a store keeps bytes"):
        store.add("a", b"key", value)
    assert store.problem is None
    assert flaky.calls == 0


def test_it_says_what_the_store_behind_it_is(flaky: Flaky) -> None:
    assert Resilient(flaky).durable
    assert not Resilient(MemoryStore()).durable
    assert isinstance(Resilient(flaky), Store)
