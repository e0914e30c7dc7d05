"""Does open_store make the right store of what a user gives?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvagent.stores import MemoryStore, Resilient, Store, open_store
from kvagent.stores.sqlite import SQLiteStore


def path_of(store: Store) -> Path:
    assert isinstance(store, Resilient)
    assert isinstance(store._store, SQLiteStore)
    return store._store.path


@pytest.mark.parametrize("spec", [None, ":memory:", "memory:", "sqlite:///:memory:"])
def test_memory(spec: str | None) -> None:
    assert isinstance(open_store(spec), MemoryStore)
    assert open_store(spec) is not open_store(spec)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "store.db"
    assert path_of(open_store(path)) == path
    assert path_of(open_store(str(path))) == path
    assert path_of(open_store("store.db")) == path
    assert path_of(open_store(f"sqlite:///{path}")) == path
    assert path_of(open_store("sqlite:///store.db")) == path
    assert path_of(open_store("~/store.db")) == tmp_path / "home" / "store.db"
    assert path_of(open_store("C:\\store.db")).name == "C:\\store.db"  # no scheme
    assert list(tmp_path.iterdir()) == []


def test_what_is_opened_works(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    store.add("a", b"key", b"value")
    store.close()
    again = open_store(tmp_path / "store.db")
    assert again.get("a", b"key") == (b"value",)
    again.close()


def test_a_store_that_may_fail_is_made_resilient(tmp_path: Path) -> None:
    given = SQLiteStore(tmp_path / "store.db")
    store = open_store(given)
    assert isinstance(store, Resilient)
    assert store._store is given


def test_a_store_that_never_fails_is_taken_as_it_is() -> None:
    for given in (MemoryStore(), Resilient(MemoryStore())):
        assert open_store(given) is given


@pytest.mark.parametrize("spec", [3, b"store.db", object(), {}, MemoryStore, True])
def test_what_is_no_store_is_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match=r'is no store: give a path, "sqlite:///path", ":memory:"'):
        open_store(spec)


@pytest.mark.parametrize("spec", ["", " ", "sqlite:///"])
def test_an_empty_name_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="the store's name is empty: give a path"):
        open_store(spec)


@pytest.mark.parametrize("spec", ["redis://user:secret@host", "sqlite://host/x", "file:///x"])
def test_other_kinds_are_refused_without_their_passwords(spec: str) -> None:
    with pytest.raises(ValueError, match="kvagent knows no store of the kind") as raised:
        open_store(spec)
    assert "secret" not in str(raised.value)


def test_sqlite3_is_imported_only_where_it_is_used() -> None:
    script = "import sys, kvagent.stores as s; s.open_store(None); print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"
