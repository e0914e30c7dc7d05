"""Is every request's cached tokens on a real vLLM the number predicted before it was sent?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kvagent import cli
from tests.prediction.rows import Row
from tests.prediction.vllm import VLLM, Player, Setup
from tests.prediction.vllm_scenarios import CASES, SERVERS, at_once, of_case, scenarios

ONE_BY_ONE: list[Row] = []
AT_ONCE: list[Row] = []
"""What the tests of this module have seen so far."""


@pytest.fixture(scope="module", params=SERVERS)
def player(vllm_python: Path, request: pytest.FixtureRequest) -> Iterator[Player]:
    """One server after the other; all tests of one run before the next starts."""
    setup = SERVERS[request.param]
    with VLLM(setup, vllm_python) as server:
        yield Player(server, setup)


def wrong(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.right]


@pytest.mark.parametrize("name", scenarios(Setup()))
def test_requests_one_after_the_other(player: Player, name: str) -> None:
    rows = list(player.play(name, scenarios(player.setup)[name]()))
    ONE_BY_ONE.extend(rows)
    assert rows
    assert wrong(rows) == []


@pytest.mark.parametrize("name", CASES)
def test_recorded_faults(player: Player, name: str, shared: Path) -> None:
    rows = list(player.play(name, of_case(shared, name)))
    ONE_BY_ONE.extend(rows)
    assert len(rows) == 8
    assert wrong(rows) == []


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_four_requests_at_a_time(player: Player, share: float) -> None:
    rows = player.play_at_once("at once", at_once(player.setup, share))
    AT_ONCE.extend(rows)
    assert len(rows) == 40
    assert len(wrong(rows)) <= 4  # the server chooses the order; how many in all is said below


def test_four_requests_that_have_to_wait_for_room(player: Player) -> None:
    """When a token is generated decides then which block is lost, and a client does not see that."""
    rows = player.play_at_once("waiting", at_once(player.setup, 1.5))
    assert len(rows) == 40
    assert len(wrong(rows)) <= 10


def test_the_size_of_the_cache(player: Player) -> None:
    said = said_by_kvagent(player, player.setup.blocks)
    assert (said["blocks"], said["tokens"]) == (player.setup.blocks, player.server.cache_size())


@pytest.fixture(scope="module")
def roomy(vllm_python: Path) -> Iterator[Player]:
    """A server that fills 1 GiB with blocks of its own number."""
    setup = Setup(blocks=None, max_model_len=65_536)
    with VLLM(setup, vllm_python) as server:
        yield Player(server, setup)


def test_a_long_session(roomy: Player, shared: Path) -> None:
    rows = list(roomy.play("long", of_case(shared, "requests_long")))
    ONE_BY_ONE.extend(rows)
    assert len(rows) == 24
    assert wrong(rows) == []


def test_the_size_of_the_cache_in_one_gib(roomy: Player) -> None:
    # Two layers of one KV head with 32 numbers for K and 32 for V, of two bytes each.
    assert roomy.server.cache_size() == (1 << 30) // (2 * 1 * (32 + 32) * 2)
    assert roomy.server.cache_size() == said_by_kvagent(roomy)["tokens"]


def said_by_kvagent(player: Player, blocks: int | None = None) -> Mapping[str, Any]:
    """What `kvagent size` has for vLLM's start-up line, in so many blocks or in the server's memory."""

    def size(gib: float) -> Mapping[str, Any]:
        options = ["--json", "--cpu", "--space", str(gib)]
        options += ["--context", str(player.setup.max_model_len)]
        options += ["--block-size", str(player.setup.block_size)]
        result = CliRunner().invoke(cli.main, ["size", str(player.server.model), *options])
        return dict(json.loads(result.stdout)["vllm"])

    whole = size(player.setup.space_gib)
    return whole if blocks is None else size(blocks * whole["block_bytes"] / (1 << 30))


def test_the_whole(vllm_python: Path) -> None:
    """Enough requests, and the simulator knew more than the longest common prefix does."""
    if not (ONE_BY_ONE and AT_ONCE):
        pytest.skip("the tests above were not run")
    assert len(ONE_BY_ONE) >= 600
    assert sum(row.right for row in AT_ONCE) >= 0.98 * len(AT_ONCE)
    assert sum(row.naive == row.reported for row in ONE_BY_ONE) < 0.3 * len(ONE_BY_ONE)
