"""What would the chosen server have taken from its cache for each request of a log?

The requests go through a simulator one after the other, as if each had been answered before the
next one came. What it remembers is bounded: after very many tokens it starts anew with what the last
request of each branch has left.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kvagent.audit.prompts import Ids
from kvagent.audit.recent import Recent
from kvagent.audit.transcript import Hashed
from kvagent.backends.simulation import Settings, Simulation, simulation
from kvagent.backends.values import Condition, Server
from kvagent.prefixcache import BlockCache, Hit

# Tokens that were computed until the simulator starts anew, and of how many what was sent last is
# held for that.
_FORGET = 4_000_000
_ROOM = 2_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """The server for which a log is judged."""

    kind: Literal["vllm", "llama.cpp"] = "vllm"
    block_size: int = 16
    """Tokens that vLLM caches together."""
    blocks: int | None = None
    """How many blocks vLLM's cache has; None: nothing is ever lost."""
    slots: int = 1
    """Of llama.cpp."""
    window: int | None = None
    """Tokens of a prompt and its answer; a longer one is refused."""
    settings: Settings = field(default_factory=Settings)
    """What such servers do not say of themselves."""

    def fresh(self) -> Simulation:
        """Its cache, empty."""
        server = Server(self.kind, window=self.window, block_size=self.block_size, slots=self.slots)
        cache = simulation(server, Condition(blocks=self.blocks), self.settings)
        if cache is None:
            raise ValueError(f"there is no simulator of {self.kind}")
        return cache


class Prediction:
    """The server's cache over a log of prompts."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._cache = target.fresh()
        self._computed = 0
        self._last: Recent[int, tuple[Ids[int], Mapping[str, Any]]] = Recent(_ROOM)

    def expect(self, ids: Ids[int], options: Mapping[str, Any], branch: int) -> Hit | None:
        """What the next request takes from the cache; None: the server refuses it."""
        if not len(ids):
            return None
        if self._computed > _FORGET:
            self._start_anew()
        hit = self._cache.expect(ids, options)
        if hit is not None:
            self._computed += hit.prompt_tokens - hit.shared_tokens
            self._last.put(branch, (ids, options), len(ids))
        return hit

    def _start_anew(self) -> None:
        self._cache, self._computed = self.target.fresh(), 0
        for ids, options in self._last.values():
            self._cache.expect(array("q", ids), options)


class HashedPrediction:
    """vLLM's cache over a trace that has no text but a hash for each block.

    Args:
        blocks: how many the cache has; None: nothing is ever lost.
    """

    def __init__(self, blocks: int | None = None) -> None:
        self._blocks = blocks
        self._caches: dict[int, BlockCache] = {}

    def expect(self, request: Hashed) -> Hit | None:
        """What the next request takes from the cache."""
        if request.prompt_tokens < 1 or request.block_size < 1:
            return None
        cache = self._caches.get(request.block_size)
        if cache is None:
            cache = BlockCache(request.block_size, self._blocks, exact=False)
            self._caches[request.block_size] = cache
        running = cache.begin_hashed(request.blocks, request.prompt_tokens)
        running.finish()
        return running.hit
