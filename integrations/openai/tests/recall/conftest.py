"""Which engine answers what a model asks?"""

from __future__ import annotations

import pytest

from kvagent import Engine, Policy, Recall
from kvagent.events import Event


@pytest.fixture
def happened() -> list[Event]:
    return []


@pytest.fixture
def engine(happened: list[Event]) -> Engine:
    return Engine(Policy(probe=False, recall=Recall()), on_event=happened.append)
