"""What do the tests without a server hold the simulator against?

``KVAGENT_VLLM=…/bin/python python -m tests.vllm.record`` writes the recordings of ``tests/prefixcache``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.prediction.rows import Row
from tests.prediction.sessions import Body, Message, Session
from tests.prediction.vllm import VLLM, WINDOWS, Player, Setup
from tests.prediction.vllm_scenarios import (
    Scenario,
    adapted,
    asking_for_logprobs,
    ending_at,
    of_lengths,
    salted,
    strangers,
    too_long,
)
from tests.prefixcache.recording import FOLDER, Exchange, Recording, written

# As small as vLLM allows: a block is 32 tokens on a CPU, and the longest request must fit.
SETUPS: Mapping[str, Setup] = {
    "vllm": Setup("llama", 32, 20, 512, adapters=("a", "b")),
    "vllm_window": Setup("gemma", 32, 56, 1024, max_num_batched_tokens=256),
}

# Drawn at random and then chosen: in each of these some mutant shows that shows in few others.
STRANGERS: Mapping[str, Sequence[int]] = {
    "llama": (2, 3, 5, 11, 12, 19),
    "gemma": (1, 3, 5, 11, 22, 25),
}


def small_scenarios(setup: Setup) -> Mapping[str, Scenario]:
    """Token ids only, with answers that are asked for, so that every run is the same."""
    size, window = setup.block_size, setup.max_model_len
    found: dict[str, Scenario] = {
        "lengths": lambda: [
            of_lengths("lengths", [k * size + n for k in (1, 2, 3, 9) for n in (-1, 0, 1)])
        ],
        "ends": lambda: [ending_at("ends", (-1, 0, 1, 2), block_size=size)],
        "tenants": lambda: [salted("salt", ("a", "a", "b", None, None, "b"), 3 * size)],
        "adapters": lambda: [adapted("lora", setup.adapters, 3 * size)],
        "logprobs": lambda: [asking_for_logprobs("logprobs", 3 * size)],
        "too long": lambda: [too_long("long", window)],
    }
    longest = window - 2 * size - 1
    for seed in STRANGERS[setup.model]:
        found[f"strangers {seed}"] = partial(
            strangers_alone, seed, size, longest, None if setup.model == "llama" else window // 2
        )
    return found


def strangers_alone(seed: int, size: int, longest: int, step: int | None) -> Iterable[Session]:
    """One session of them."""
    return [strangers(seed, 25, size, longest, step)]


class Recorder(Player):
    """A player that keeps what was said."""

    exchanges: list[Exchange]

    def record(self, sessions: Iterable[Session]) -> Sequence[Exchange]:
        """One scenario."""
        self.exchanges = []
        for _ in self.play("recorded", sessions):
            pass
        return self.exchanges

    def request(self, scenario: str, number: int, body: Body) -> tuple[Row, Message]:
        """Also note it."""
        row, reply = super().request(scenario, number, body)
        answer = reply.get("tokens")
        self.exchanges.append(
            Exchange(
                written(body["prompt"]),
                written(answer or ()),
                row.reported if answer else None,
                body.get("cache_salt"),
                body["model"] if body["model"] in self.setup.adapters else None,
                "prompt_logprobs" not in body,
            )
        )
        return row, reply


def record(setup: Setup, python: Path) -> Recording:
    """All scenarios on one real server."""
    settings: dict[str, Any] = {
        "block_size": setup.block_size,
        "blocks": setup.blocks,
        "max_model_len": setup.max_model_len,
        "max_num_batched_tokens": setup.max_num_batched_tokens,
        "windows": WINDOWS[setup.model],
    }
    with VLLM(setup, python) as server:
        recorder = Recorder(server, setup)
        said = {name: recorder.record(play()) for name, play in small_scenarios(setup).items()}
    return Recording(settings, said)


def main() -> int:
    """All files."""
    python = Path(os.environ["KVAGENT_VLLM"])
    FOLDER.mkdir(exist_ok=True)
    for name, setup in SETUPS.items():
        recording = record(setup, python)
        recording.save(FOLDER / f"{name}.json")
        print(name, sum(map(len, recording.scenarios.values())), "requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
