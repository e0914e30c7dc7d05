"""What would the chosen server have taken from its cache for each request of a log?

The requests go through a simulator one after the other, as if each had been answered before the
next one came. What it remembers is bounded: after very many tokens it starts anew with what the last
requests have left.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from kvagent.audit.prompts import Ids
from kvagent.audit.recent import Recent
from kvagent.audit.transcript import Hashed
from kvagent.backends import Server, Wish, hint_fields
from kvagent.backends.simulation import Settings, Simulation, simulation
from kvagent.backends.values import Condition
from kvagent.prefixcache import BlockCache, Hit
from kvagent.prefixcache.computed import Computed, behind, chained, packed
from kvagent.prefixcache.hit import Loss
from kvagent.prefixcache.seen import common_prefix

# Tokens that are computed until the simulator starts anew, of how many what was sent last is held,
# and how many of those it computes again.
_FORGET = 1_500_000
_ROOM = 2_000_000
_AGAIN = 500_000


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

    @property
    def room(self) -> int | None:
        """Tokens that vLLM's cache holds; None: nothing is ever lost."""
        return None if self.blocks is None else self.blocks * self.block_size

    def fresh(self) -> Simulation:
        """Its cache, empty."""
        server = Server(self.kind, window=self.window, block_size=self.block_size, slots=self.slots)
        cache = simulation(server, Condition(blocks=self.blocks), self.settings)
        if cache is None:
            raise ValueError(f"there is no simulator of {self.kind}")
        return cache


class _Sent(NamedTuple):
    """The last prompt of a branch."""

    ids: Ids[int]
    options: Mapping[str, Any]
    hashes: array[int]
    """Of its full blocks, where the cache has no end."""


class Prediction:
    """The server's cache over a log of prompts."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._computed = 0
        self._last: Recent[int, _Sent] = Recent(_ROOM)
        self._start_anew()

    def expect(
        self,
        ids: Ids[int],
        options: Mapping[str, Any],
        branch: int,
        left: int | None,
        before: Ids[int] | None = None,
        common: int = 0,
    ) -> Hit | None:
        """What the next request takes from the cache; None: the server refuses it.

        ``left`` is the branch that it is the next request of, or leaves. It is known that the
        prompt has the first ``common`` tokens of ``before``, and no more.
        """
        if not len(ids):
            return None
        if self._computed > _FORGET:
            self._start_anew()
        last = None if left is None else self._last.get(left)
        if last is not None and last.ids is not before:
            common = common_prefix(last.ids, ids)
        hit, hashes = self._expect(ids, options, last, common)
        if hit is not None:
            self._computed += hit.prompt_tokens - hit.shared_tokens
            self._last.put(branch, _Sent(ids, options, hashes), len(ids))
        return hit

    def _expect(
        self, ids: Ids[int], options: Mapping[str, Any], last: _Sent | None, common: int
    ) -> tuple[Hit | None, array[int]]:
        if isinstance(self._cache, _Endless):
            return self._cache.expect(ids, options, last, common)
        return self._cache.expect(ids, options), array("q")

    def _start_anew(self) -> None:
        target = self.target
        endless = target.kind == "vllm" and target.blocks is None and not target.settings.geometry
        self._cache: _Endless | Simulation = _Endless(target) if endless else target.fresh()
        self._computed = 0
        again = []
        room = _AGAIN
        for sent in reversed(self._last.values()):
            room -= len(sent.ids)
            if room < 0:
                break
            again.append(sent)
        for sent in reversed(again):
            self._expect(sent.ids, sent.options, None, 0)


class _Endless:
    """vLLM's cache, if no block were ever needed for others.

    What a prompt has in common with the one before it needs no second look, so the time that it
    takes grows with what is new.
    """

    def __init__(self, target: Target) -> None:
        self._size, self._window = target.block_size, target.window
        self._known = Computed(self._size)
        self._salt = next(iter(hint_fields(Server("vllm"), Wish(salt="-"))), "")

    def expect(
        self, ids: Ids[int], options: Mapping[str, Any], last: _Sent | None, common: int
    ) -> tuple[Hit | None, array[int]]:
        length, size = len(ids), self._size
        hashes: array[int] = array("q")
        if self._window is not None and length >= self._window:
            return None, hashes
        root = self._root(options)
        if last is None or self._root(last.options) != root:
            common = 0
        else:
            hashes = last.hashes[: common // size]
        same = len(hashes)
        data = packed(ids[same * size :])
        hashes.extend(chained(data, size, hashes[-1] if same else root))
        # What was sent last may have been forgotten since.
        shared = max(common, self._known.shared(data, hashes, root, same))
        blocks = shared // size
        self._known.add(behind(data, (blocks - same) * size), hashes, root, blocks)
        cached = min(shared, length - 1) // size * size
        loss: Loss = ""
        if cached < shared:
            to_its_end = cached < blocks * size or shared == cached + 1 == length
            loss = "whole_prompt" if to_its_end else "block"
        return Hit(length, cached, shared, loss), hashes

    def _root(self, options: Mapping[str, Any]) -> int:
        salt = options.get(self._salt)
        return hash(salt) if isinstance(salt, str) else 0


class HashedPrediction:
    """vLLM's cache over a trace that has no text but a hash for each block.

    Args:
        room: how many tokens the cache holds, in blocks of the trace's own size; None: nothing is
            ever lost.
    """

    def __init__(self, room: int | None = None) -> None:
        self._room = room
        self._caches: dict[int, BlockCache] = {}

    def expect(self, request: Hashed) -> Hit | None:
        """What the next request takes from the cache."""
        if request.prompt_tokens < 1 or request.block_size < 1:
            return None
        cache = self._caches.get(request.block_size)
        if cache is None:
            # One block is never used.
            blocks = None if self._room is None else max(2, self._room // request.block_size)
            cache = BlockCache(request.block_size, blocks, exact=False)
            self._caches[request.block_size] = cache
        running = cache.begin_hashed(request.blocks, request.prompt_tokens)
        running.finish()
        return running.hit
