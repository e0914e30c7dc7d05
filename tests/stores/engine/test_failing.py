"""Is a store that fails warned of once, and is every request served all the same?"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kvagent import Bypassed, Engine, Event
from kvagent.stores.sqlite import SQLiteStore
from tests.stores.engine.processes import turn
from tests.strategies import Agent, Traits, play, policy


def full(path: Path) -> SQLiteStore:
    store = SQLiteStore(path)
    store.add("", b"k", b"v")
    with store._writer as connection:
        connection.execute(f"PRAGMA max_page_count = {1}")
    return store


def corrupt(path: Path) -> Path:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8_000)
    return path


def no_database(path: Path) -> Path:
    path.write_text("A text that somebody keeps here. " * 100)
    return path


def of_another_version(path: Path) -> Path:
    store = SQLiteStore(path)
    store.add("", b"k", b"v")
    store.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 99")
    return path


def a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def below_a_file(path: Path) -> Path:
    path.write_text("no folder")
    return path / "ledger.sqlite3"


@pytest.mark.parametrize(
    "broken", [full, corrupt, no_database, of_another_version, a_folder, below_a_file]
)
def test_a_store_that_fails_is_warned_of_once_and_harms_no_request(
    broken: Callable[[Path], Any], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exchanges = list(Agent(Traits(clock=True, tools=2), seed=3).exchanges(map(turn, range(8))))
    events: list[Event] = []
    with caplog.at_level(logging.WARNING):
        used = Engine(policy(), store=broken(path), on_event=events.append)
        assert play(exchanges, used) == play(exchanges, Engine(policy()))
    assert len([r for r in caplog.records if r.name.startswith("kvagent")]) == 1
    assert not [event for event in events if isinstance(event, Bypassed)]


def test_a_file_that_may_only_be_read_is_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exchanges = list(Agent(Traits(clock=True), seed=3).exchanges(map(turn, range(8))))
    first = Engine(policy(), store=path)
    sent = play(exchanges[:4], first)
    first.store.close()
    store = SQLiteStore(path)
    with store._writer as connection:
        connection.execute("PRAGMA query_only = ON")
    with caplog.at_level(logging.WARNING):
        sent += play(exchanges[4:], Engine(policy(), store=store))
    assert sent == play(exchanges, Engine(policy()))
    assert len([r for r in caplog.records if r.name.startswith("kvagent")]) == 1


def test_a_file_that_breaks_in_mid_session(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exchanges = list(Agent(Traits(clock=True), seed=3).exchanges(map(turn, range(8))))
    used = Engine(policy(), store=path)
    sent = play(exchanges[:4], used)
    used.store.close()  # and all that is asked of it fails
    with caplog.at_level(logging.WARNING):
        sent += play(exchanges[4:], used)
    assert sent == play(exchanges, Engine(policy()))


def test_a_store_that_forgets_costs_a_prefix_and_no_request(path: Path) -> None:
    """Records may be gone one by one: a full store drops the oldest."""
    exchanges = list(Agent(Traits(clock=True, tools=2), seed=3).exchanges(map(turn, range(8))))
    play(exchanges[:6], Engine(policy(), store=path))
    with closing(sqlite3.connect(path)) as file:
        count = file.execute("SELECT count(*) FROM entry").fetchone()[0]
    for gone in range(0, count, 3):
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("DELETE FROM entry WHERE id % ? = 0", [gone + 1])
        events: list[Event] = []
        used = Engine(policy(), store=path, on_event=events.append)
        for exchange, raw in zip(exchanges[6:], play(exchanges[6:], used), strict=True):
            came, went = json.loads(exchange.body)["messages"], json.loads(raw)["messages"]
            assert [m["role"] for m in came] == [m["role"] for m in went]
        assert not [event for event in events if isinstance(event, Bypassed)]
        used.store.close()
