"""Do all stores remember the same?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.stores import MemoryStore, Resilient, Store
from kvagent.stores.sqlite import SQLiteStore

namespaces = st.sampled_from(["", "a", "b", "北"])
keys = st.sampled_from([b"", b"k", b"K", b"k\0"])
values = st.binary(max_size=20) | st.sampled_from([b"", b"v", b"v" * 5_000])
steps = st.lists(
    st.tuples(st.just("add"), namespaces, keys, st.lists(values, max_size=4))
    | st.tuples(st.just("batch"), namespaces, st.lists(st.tuples(keys, values), max_size=6))
    | st.tuples(st.just("get"), namespaces, keys),
    max_size=20,
)
run = itertools.count()


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Store]]:
    folder = tmp_path_factory.mktemp("stores")
    plain = SQLiteStore(folder / "one.db")
    resilient = Resilient(SQLiteStore(folder / "two.db"))
    stores: list[Store] = [plain, resilient]
    yield stores
    for store in stores:
        store.close()


@settings(deadline=None)
@given(steps=steps)
def test_sqlite_and_memory_agree(durable: list[Store], steps: list[tuple[Any, ...]]) -> None:
    tenant = f"{next(run)}/"  # instead of a new file for each example
    stores: list[Store] = [MemoryStore(), *durable]
    for kind, namespace, *rest in steps:
        arguments = [rest[0], *rest[1]] if kind == "add" else rest
        answers = {getattr(store, kind)(tenant + namespace, *arguments) for store in stores}
        assert len(answers) == 1
