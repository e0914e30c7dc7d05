"""What should this server take from its cache for each request, sent one after the other?

Puts the simulators of `kvagent.prefixcache` behind one face: the request's own fields (a salt, a
slot) and what the server says of itself are read here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kvagent.backends.values import Condition, Server

if TYPE_CHECKING:
    from kvagent.kvmemory.geometry import Geometry
    from kvagent.prefixcache import Hit
    from kvagent.prefixcache.memory import Layout

Body: TypeAlias = Mapping[str, Any]

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What servers do not say of themselves: llama.cpp's, with its own defaults.

    ``host_cache_mib`` is ``--cache-ram`` (0 is off, -1 without limit), ``unified`` is
    ``--kv-unified``, ``similarity`` is ``--slot-prompt-similarity``.
    """

    host_cache_mib: int = 8192
    unified: bool = False
    similarity: float = 0.1
    geometry: Geometry | None = None
    """The model's layers, with KV in 16 bits: how many prompts a small host cache holds, and what
    layers with a sliding window forget, follow from them."""


class Simulation(Protocol):
    """A server's cache, from empty on."""

    @property
    def leftovers(self) -> str:
        """What of earlier requests can still be hit, and how to be rid of it; empty for nothing."""

    def first(self) -> Sequence[Body]:
        """Requests to send before all others, so that what the server holds is known."""

    def apart(self, body: Body) -> Body:
        """The request so that it shares nothing with what was sent before this simulation began."""

    def expect(self, tokens: Sequence[int], body: Body) -> Hit | None:
        """What the next request takes from it, if one token is generated; None: it is refused."""


class Blocks:
    """vLLM's; without a geometry, for a model whose layers all see everything."""

    def __init__(self, server: Server, now: Condition, settings: Settings) -> None:
        from kvagent.prefixcache.blocks import BlockCache

        size = server.block_size or 16
        self._cache = BlockCache(
            size,
            now.blocks,
            windows=_windows(settings.geometry, server.window, size),
            max_model_len=server.window,
        )
        self._reads = now.caching is not False
        self._salt = secrets.token_hex(8)

    @property
    def leftovers(self) -> str:
        return ""

    def first(self) -> Sequence[Body]:
        return ()

    def apart(self, body: Body) -> Body:
        return {**body, "cache_salt": self._salt + str(body.get("cache_salt") or "")}

    def expect(self, tokens: Sequence[int], body: Body) -> Hit | None:
        from kvagent.prefixcache.hit import PromptTooLong

        read, salt = self._reads and body.get("prompt_logprobs") is None, body.get("cache_salt")
        salt = salt if isinstance(salt, str) else None
        try:
            running = self._cache.begin(tokens, salt=salt, read=read)
        except PromptTooLong:
            return None
        running.finish([0])  # any token: the last one is never computed
        return running.hit


class Slots:
    """llama.cpp's; without a geometry, for a model whose layers all see everything."""

    def __init__(self, server: Server, now: Condition, settings: Settings) -> None:
        from kvagent.prefixcache.slots import SlotCache

        slots, window = server.slots or 1, server.window or 1 << 20
        host = settings.host_cache_mib
        self._cache = SlotCache(
            slots,
            window if settings.unified else window * slots,
            unified=settings.unified,
            similarity=settings.similarity,
            host_cache=None if host < 0 else host * _MIB,
            layout=_layout(settings.geometry) if settings.geometry else None,
        )
        self._slots, self._host_cache = slots, host != 0

    @property
    def leftovers(self) -> str:
        if not self._host_cache:
            return ""
        return (
            "llama.cpp's host cache cannot be emptied: what was sent before counts as cached. "
            "Start the server anew, or with --cache-ram 0 (and give --host-cache 0)."
        )

    def first(self) -> Sequence[Body]:
        """A text that nobody sent before into each slot."""
        return [
            {
                "messages": [{"role": "user", "content": secrets.token_hex(8)}],
                "max_tokens": 1,
                "id_slot": slot,
            }
            for slot in range(self._slots)
        ]

    def apart(self, body: Body) -> Body:
        return body

    def expect(self, tokens: Sequence[int], body: Body) -> Hit | None:
        from kvagent.prefixcache.hit import PromptTooLong

        slot, reuse = body.get("id_slot"), body.get("n_cache_reuse")
        try:
            running = self._cache.begin(
                tokens,
                id_slot=slot if isinstance(slot, int) else None,
                cache_prompt=body.get("cache_prompt") is not False,
                n_cache_reuse=reuse if isinstance(reuse, int) else 0,
            )
        except PromptTooLong:
            return None
        running.finish([0])
        return running.hit


def _windows(
    geometry: Geometry | None, context: int | None, block_size: int
) -> Sequence[int | None]:
    """The windows of vLLM's groups of layers."""
    if geometry is None or context is None:
        return (None,)
    from kvagent.kvmemory.memory import Storage
    from kvagent.kvmemory.vllm import blocks_of

    groups = blocks_of(geometry, context, Storage.of(), block_size=block_size).groups
    return [group.window for group in groups]


def _layout(geometry: Geometry) -> Layout:
    """The layers as far as llama.cpp's slots depend on them."""
    from kvagent.kvmemory.geometry import Attention
    from kvagent.prefixcache.memory import Layout

    full = sliding = row = window_row = window = 0
    for layers in geometry.layers:
        if not isinstance(layers.layer, Attention):
            continue
        size = 2 * layers.layer.elements * layers.count
        if layers.layer.window is not None and geometry.is_windowed(layers.layer):
            sliding, window_row = sliding + layers.count, window_row + size
            window = layers.layer.window
        else:
            full, row = full + layers.count, row + size
    return Layout(row, full, window, window_row, sliding)


_KINDS: Mapping[str, Callable[[Server, Condition, Settings], Simulation]] = {
    "llama.cpp": Slots,
    "vllm": Blocks,
}


def simulation(server: Server, now: Condition, settings: Settings) -> Simulation | None:
    """The server's cache as if nobody had used it; None for a server that is not known."""
    kind = _KINDS.get(server.kind)
    return None if kind is None else kind(server, now, settings)
