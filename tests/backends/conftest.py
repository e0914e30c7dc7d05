"""What did the servers answer? Recorded replies, and a driver that answers a probe from a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from kvagent.backends import Fetch, Fetched, Server, probe

Recorded: TypeAlias = Callable[[str], dict[str, Any]]
Drive: TypeAlias = Callable[[Mapping[str, Fetched], str | None], tuple[Server, list[str]]]

_RECORDED = Path(__file__).parent / "recorded"
_NOT_FOUND = Fetched(404, b'{"detail":"Not Found"}')


@pytest.fixture
def recorded() -> Recorded:
    """Loads ``recorded/NAME.json``."""

    def load(name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((_RECORDED / f"{name}.json").read_text())
        return loaded

    return load


@pytest.fixture
def drive() -> Drive:
    """Runs a probe against ``{"api/models": answer, …}``; gives the server and what was asked."""

    def run(answers: Mapping[str, Fetched], model: str | None) -> tuple[Server, list[str]]:
        asked: list[str] = []
        generator = probe(model)
        try:
            fetch: Fetch = next(generator)
            while True:
                address = fetch.base + fetch.path
                asked.append(address)
                fetch = generator.send(answers.get(address, _NOT_FOUND))
        except StopIteration as stop:
            server: Server = stop.value
            return server, asked

    return run
