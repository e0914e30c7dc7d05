"""Does the memory store keep its bound, and the right things within it?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from kvagent.stores import MemoryStore


def test_the_least_recently_used_key_goes_first() -> None:
    store = MemoryStore(max_bytes=5_000)
    for number in range(4):
        store.add("a", b"%d" % number, bytes(500))
    store.get("a", b"0")  # reading is using
    store.add("a", b"1", b"more")  # and so is adding
    store.add("a", b"4", bytes(500))
    store.add("a", b"5", bytes(500))
    kept = [number for number in range(6) if store.get("a", b"%d" % number)]
    assert kept == [0, 1, 4, 5]


def test_a_key_goes_with_all_its_values() -> None:
    store = MemoryStore(max_bytes=3_000)
    store.add("a", b"old", b"1", b"2", b"3")
    store.add("b", b"new", bytes(2_000))
    assert store.get("a", b"old") == ()
    assert store.get("b", b"new") == (bytes(2_000),)


def test_a_value_larger_than_the_store_drives_nothing_out() -> None:
    store = MemoryStore(max_bytes=3_000)
    store.add("a", b"key", b"value")
    store.add("a", b"key", bytes(3_000))
    store.add("a", b"other", bytes(3_000))
    assert store.get("a", b"key") == (b"value",)
    assert store.get("a", b"other") == ()


def test_a_key_that_fills_the_store_loses_its_oldest_values() -> None:
    store = MemoryStore(max_bytes=3_000)
    for number in range(10):
        store.add("a", b"key", b"%d" % number * 700)
    assert store.get("a", b"key") == tuple(b"%d" % number * 700 for number in (7, 8, 9))


def test_close_forgets() -> None:
    store = MemoryStore()
    store.add("a", b"key", b"value")
    store.close()
    assert store.get("a", b"key") == ()


small = st.integers(0, 9).map(lambda number: b"%d" % number)
adds = st.lists(st.tuples(st.sampled_from("ab"), small, st.binary(max_size=900)), max_size=60)


@given(adds=adds, max_bytes=st.integers(1, 4_000))
def test_what_is_kept_fits_the_bound_and_the_newest_is_kept(
    adds: list[tuple[str, bytes, bytes]], max_bytes: int
) -> None:
    store = MemoryStore(max_bytes)
    for namespace, key, value in adds:
        before = store.get(namespace, key)
        store.add(namespace, key, value)
        after = store.get(namespace, key)
        assert value in after or after == before  # the latter where it does not fit at all
        assert len(set(after)) == len(after)
    kept = [(n, k, store.get(n, k)) for n, k in {(n, k) for n, k, _ in adds}]
    assert (
        sum(len(n) + len(k) + sum(map(len, values)) for n, k, values in kept if values) <= max_bytes
    )


@given(adds=adds)
def test_its_own_count_of_bytes_stays_true(adds: list[tuple[str, bytes, bytes]]) -> None:
    """A count that drifts would empty the store, or let it grow, after a day."""
    store = MemoryStore(3_000)
    for namespace, key, value in adds:
        store.add(namespace, key, value)
    counted = sum(
        len(namespace) + len(key) + 400 + sum(len(value) + 100 for value in values)
        for (namespace, key), values in store._values.items()
    )
    assert store._bytes == counted


def test_threads_lose_nothing() -> None:
    store = MemoryStore()

    def add(thread: int) -> None:
        for number in range(100):
            store.add("a", b"%d" % (number % 7), b"%d of %d" % (number, thread))
            store.get("a", b"%d" % (number % 5))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert sum(len(store.get("a", b"%d" % key)) for key in range(7)) == 800
