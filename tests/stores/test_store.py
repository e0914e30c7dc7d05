"""What is a store, and what may be put into one?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvagent.stores import MemoryStore, Resilient, Store
from kvagent.stores.sqlite import SQLiteStore

KINDS = ["memory", "sqlite", "resilient"]


def make(kind: str, folder: Path) -> Store:
    if kind == "memory":
        return MemoryStore()
    sqlite = SQLiteStore(folder / "store.db")
    return sqlite if kind == "sqlite" else Resilient(sqlite)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make(request.param, tmp_path)


def test_every_store_fits_the_protocol(store: Store) -> None:
    assert isinstance(store, Store)
    assert store.durable is not isinstance(store, MemoryStore)


def test_values_come_back_oldest_first(store: Store) -> None:
    store.add("a", b"key", b"2", b"1")
    store.add("a", b"key", b"3")
    assert store.get("a", b"key") == (b"2", b"1", b"3")
    assert store.get("a", b"other") == ()


def test_a_value_is_kept_once_and_keeps_its_place(store: Store) -> None:
    store.add("a", b"key", b"1", b"2", b"1")
    store.batch("a", [(b"key", b"3"), (b"key", b"1")])
    assert store.get("a", b"key") == (b"1", b"2", b"3")


def test_nothing_is_read_from_another_namespace(store: Store) -> None:
    store.add("a", b"key", b"of a")
    store.add("a\0key", b"", b"of a0key")
    assert store.get("b", b"key") == ()
    assert store.get("A", b"key") == ()
    assert store.get("", b"a\0key") == ()
    assert store.get("a\0key", b"") == (b"of a0key",)


@pytest.mark.parametrize(
    "namespace", ["", "Mandant 北京", "🔑" * 300, "a\0b", "half a pair \ud800", "é"]
)
def test_any_string_is_a_namespace(store: Store, namespace: str) -> None:
    store.add(namespace, b"key", b"value")
    assert store.get(namespace, b"key") == (b"value",)
    # Text that only looks the same is another namespace: é in two code points.
    assert store.get("e\u0301", b"key") == ()


def test_values_may_be_empty_or_large(store: Store) -> None:
    large = bytes(range(256)) * 4096
    store.add("a", b"", b"", large)
    assert store.get("a", b"") == (b"", large)


def test_adding_nothing_is_fine(store: Store) -> None:
    store.add("a", b"key")
    store.batch("a", [])
    assert store.get("a", b"key") == ()


def test_a_batch_may_come_from_a_generator(store: Store) -> None:
    store.batch("a", ((b"key", b"%d" % number) for number in range(3)))
    assert store.get("a", b"key") == (b"0", b"1", b"2")


def test_closing_twice_is_fine(store: Store) -> None:
    store.add("a", b"key", b"value")
    store.close()
    store.close()


@pytest.mark.parametrize(
    ("namespace", "key", "value"), [(b"a", b"key", b"v"), ("a", "key", b"v"), ("a", b"key", "v")]
)
def test_other_than_bytes_is_refused_in_a_sentence(
    store: Store, namespace: Any, key: Any, value: Any
) -> None:
    with pytest.raises(ValueError, match="but got a value of type"):
        store.add(namespace, key, value)
    with pytest.raises(ValueError, match="but got a value of type"):
        store.batch(namespace, [(b"key", b"before"), (key, value)])
    assert store.get("a", b"key") == ()


def test_a_generator_that_fails_leaves_nothing_behind(store: Store) -> None:
    def items() -> Any:
        yield b"key", b"value"
        raise LookupError("the caller's own")

    with pytest.raises(LookupError):
        store.batch("a", items())
    assert store.get("a", b"key") == ()


@pytest.mark.parametrize("max_bytes", [0, -1, True, 1.5, "1 GB"])
def test_a_bound_that_is_none_is_refused(max_bytes: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_bytes is"):
        MemoryStore(max_bytes)
    with pytest.raises(ValueError, match="max_bytes is"):
        SQLiteStore(tmp_path / "store.db", max_bytes=max_bytes)
