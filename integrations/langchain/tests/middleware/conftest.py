"""Which server do the agents of these tests work on?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

# Tests are no package, so there is no absolute name for this.
from ..task_server import TaskServer, task_server  # noqa: TID252


@pytest.fixture
def tasks() -> Iterator[TaskServer]:
    with task_server() as server:
        yield server
