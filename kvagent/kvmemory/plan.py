"""Does a model fit on a GPU with so many requests, and what would make it fit better?

A scenario says how things would be; what a means brings is the difference to a scenario in which it
is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kvagent.kvmemory import llamacpp, vllm
from kvagent.kvmemory.dtypes import kv_types
from kvagent.kvmemory.geometry import Geometry
from kvagent.kvmemory.gpus import GIB, GPU
from kvagent.kvmemory.memory import Storage, request_bytes, unwindowed_bytes
from kvagent.kvmemory.speed import prefill_seconds, step_bytes, step_seconds
from kvagent.kvmemory.weights import weight_bytes

Server = Literal["vLLM", "llama.cpp"]

UTILISATION: dict[Server, float] = {"vLLM": 0.92, "llama.cpp": 0.95}
"""The share of a GPU's memory that is used: vLLM's default, and what is left beside a driver."""

WORKSPACE: dict[Server, int] = {"vLLM": 3 * GIB // 2, "llama.cpp": 3 * GIB // 4}
"""Bytes assumed for activations, graphs and buffers."""

HOST_BANDWIDTH = 25.0
"""GB/s assumed between the host's memory and a GPU: PCIe 4.0 with 16 lanes."""

QUANTISED: dict[Server, str] = {"vLLM": "fp8", "llama.cpp": "q8_0"}
"""Each server's 8-bit type."""

NO_END = 1 << 30
"""More tokens or requests than anybody asks for: so many have room when there is no limit."""

SMALL_BATCH = 2048
"""Tokens of a step that are still enough for a good prefill."""

MOST_GPUS = 64
"""More are not tried."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A model on GPUs, with requests on it."""

    geometry: Geometry
    gpu: GPU
    context: int
    """Tokens of each request."""
    requests: int
    """How many at once."""
    storage: Storage
    server: Server = "vLLM"
    weights: str | None = None
    """The weights' data type, a key of `weights.BITS`; None: as they are."""
    shared: int = 0
    """Tokens with which all requests begin, kept once."""
    in_flight: int | None = None
    """Tokens that vLLM has in flight; None: by its defaults for the GPU."""

    @property
    def weight_bytes(self) -> int:
        """On each rank; ``UnknownWeights`` if nothing says how many there are."""
        return -(-weight_bytes(self.geometry.weights, self.weights) // self.storage.tp)

    @property
    def space_bytes(self) -> int:
        """What is left for KV on each rank, 0 where the weights leave nothing."""
        usable = int(self.gpu.bytes * UTILISATION[self.server])
        return max(0, usable - self.weight_bytes - WORKSPACE[self.server])

    @property
    def kv_bytes(self) -> int:
        """What the server reserves on each rank for all requests at their full length."""
        if self.server == "llama.cpp":
            return llamacpp.reserve(self.geometry, self.context, self.requests, self.storage).bytes
        blocks = self._blocks()
        shared = self.shared_blocks * (self.requests - 1)
        return blocks.space_for(self.requests) - shared * blocks.block_bytes

    @property
    def fits(self) -> bool:
        """Whether there is room for all requests at their full length."""
        return self.kv_bytes <= self.space_bytes

    @property
    def most_requests(self) -> int:
        """How many requests of this length have room at once."""
        return _largest(lambda count: replace(self, requests=count).fits)

    @property
    def longest_context(self) -> int:
        """How long each of the requests may be for all to have room, the model's limit aside."""
        return _largest(
            lambda tokens: replace(self, context=tokens, shared=min(self.shared, tokens)).fits
        )

    @property
    def shared_blocks(self) -> int:
        """Blocks that all requests have in common: whole ones, of layers that see everything."""
        return sum(
            min(self.shared, self.context - 1) // group.block_size
            for group in self._blocks().groups
            if group.grows
        )

    @property
    def shared_tokens(self) -> int:
        """Tokens that need no prefill once another request has begun alike."""
        size = self._blocks().block_size if self.server == "vLLM" else 1
        return min(self.shared, self.context - 1) // size * size

    def _blocks(self) -> vllm.Blocks:
        return vllm.blocks_of(
            self.geometry,
            self.context,
            self.storage,
            in_flight=self.tokens_in_flight,
        )

    @property
    def tokens_in_flight(self) -> int:
        """Of vLLM, in two steps at a time."""
        return self.in_flight or vllm.in_flight_tokens(self.gpu.bytes, self.gpu.name)

    @property
    def prefill_seconds(self) -> float | None:
        """Of one prompt of the full length with nothing in the cache; None: not known."""
        return prefill_seconds(self.geometry, self.gpu, self._at_once, self.context)

    @property
    def warm_prefill_seconds(self) -> float | None:
        """Of one prompt whose shared head is in the cache."""
        return prefill_seconds(
            self.geometry, self.gpu, self._at_once, self.context, self.shared_tokens
        )

    @property
    def step_bytes(self) -> int:
        """Bytes that one rank reads for the next token of every request at full length."""
        return step_bytes(self.geometry, self.storage, self.context, self.requests, self.weights)

    @property
    def step_seconds(self) -> float | None:
        """The least time between two tokens of a request; None: the bandwidth is not known."""
        one = step_seconds(self.step_bytes, self.gpu)
        return None if one is None else one * self.storage.tp / self._at_once

    @property
    def _at_once(self) -> int:
        """GPUs that compute at the same time; those of llama.cpp have a turn each."""
        return 1 if self.server == "llama.cpp" else self.storage.tp


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest number that fits, where every smaller one does too; 0 where not even 1 does."""
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, high * 2
        if low >= NO_END:
            return NO_END
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Means:
    """One of the usual ways to need less, and the scenario in which it is used."""

    name: str
    what: str
    """What is done, or why it does nothing here."""
    scenario: Scenario | None
    """None: it does nothing here, or not to KV on the GPU."""
    vllm: str | None = None
    """What vLLM is given for it; None: nothing, or it cannot."""
    llamacpp: str | None = None


def means(now: Scenario, shared: int) -> Iterator[Means]:
    """What each of the usual means would make of a scenario whose requests share nothing yet.

    Args:
        now: without any of them.
        shared: tokens with which all requests begin.
    """
    yield _prefix_caching(replace(now, shared=shared))
    yield _quantisation(now)
    yield _tensor_parallel(now)
    yield _offload(now)
    yield _window(now)
    yield _shorter(now)


def _prefix_caching(used: Scenario) -> Means:
    name, default = "prefix caching", "on by default"
    if used.shared == 0:
        return Means(name, "without a --shared-head nothing is kept once", None, default, default)
    if used.server == "llama.cpp":
        what = "each slot keeps its own head: spares prefill, not memory"
        return Means(name, what, None, default, default)
    what = f"the first {used.shared_tokens:,} tokens of all requests are kept once"
    return Means(name, what, used, default, default)


def _quantisation(now: Scenario) -> Means:
    kind = QUANTISED[now.server]
    types = kv_types(kind)
    vllm_flag, llamacpp_flag = "--kv-cache-dtype fp8", "--cache-type-k q8_0 --cache-type-v q8_0"
    name = "KV quantisation"
    if all(side.element < 2 for side in (now.storage.types.key, now.storage.types.value)):
        return Means(
            name, f"KV is in {now.storage.types.name} already", None, vllm_flag, llamacpp_flag
        )
    used = replace(now, storage=replace(now.storage, types=types))
    return Means(name, f"keys and values in {kind}", used, vllm_flag, llamacpp_flag)


def _tensor_parallel(now: Scenario) -> Means:
    name, tp = "tensor parallel", now.storage.tp
    counts = [count for count in range(2 * tp, MOST_GPUS + 1, tp) if _takes_gpus(now, count)]
    if not counts:
        return Means(name, "its heads cannot be divided among more GPUs", None)
    # As few GPUs as it takes.
    choices = (_on(now, count) for count in counts)
    used = next((choice for choice in choices if choice.fits), _on(now, counts[-1]))
    ranks = used.storage.tp
    part = "some of the layers" if now.server == "llama.cpp" else "a part of each layer"
    return Means(
        name,
        f"{ranks} such GPUs, each with {part}",
        used,
        f"--tensor-parallel-size {ranks}",
        "--split-mode layer, and all GPUs visible",
    )


def _takes_gpus(now: Scenario, count: int) -> bool:
    """Whether the server divides the model among them."""
    if now.server == "llama.cpp":  # any number will do: twice as many, and twice again
        return (count // now.storage.tp).bit_count() == 1
    return vllm.takes_ranks(now.geometry, count)


def _on(now: Scenario, count: int) -> Scenario:
    """The same on so many GPUs."""
    return replace(now, storage=replace(now.storage, tp=count))


def _offload(now: Scenario) -> Means:
    name = "CPU offload"
    if now.space_bytes == 0:
        over = now.weight_bytes + WORKSPACE[now.server]
        over -= int(now.gpu.bytes * UTILISATION[now.server])
        gib = max(1, -(-over // GIB))
        kept = sum(group.count for group in now.geometry.layers)
        layers = max(0, int(kept * (1 - over / now.weight_bytes)))
        what = f"{gib:,} GiB of weights in the host's memory, read from there for each token"
        return Means(name, what, None, f"--cpu-offload-gb {gib}", f"--n-gpu-layers {layers}")
    whole = replace(now.storage, tp=1)
    request = request_bytes(now.geometry, now.context, whole)
    gib = max(1, -(-request * now.requests // GIB))
    seconds = request / (HOST_BANDWIDTH * 1e9)
    what = (
        f"idle requests wait in {gib:,} GiB of the host's memory; each is back in "
        f"{seconds:.2g} s without a prefill"
    )
    return Means(name, what, None, f"--kv-offloading-size {gib}", f"--cache-ram {gib * 1024}")


def _window(now: Scenario) -> Means:
    name = "sliding window"
    windows = now.geometry.windows
    if not windows:
        return Means(name, "the model has none", None)
    saved = unwindowed_bytes(now.geometry, now.storage) * now.context - request_bytes(
        now.geometry, now.context, now.storage
    )
    lengths = ", ".join(f"{window:,}" for window in windows)
    what = f"layers that keep {lengths} tokens: {max(saved, 0) / GIB:,.2f} GiB a request less, counted already"
    # vLLM's windows also hold what is in flight, which may be far more than they are long.
    least = 2 * SMALL_BATCH
    if now.server == "llama.cpp" or now.tokens_in_flight <= least:
        return Means(name, what, None, "on by default", "on by default")
    return Means(
        name,
        f"{what}; with {SMALL_BATCH:,} tokens a step they are smaller",
        replace(now, in_flight=least),
        f"--max-num-batched-tokens {SMALL_BATCH}",
        "on by default",
    )


def _shorter(now: Scenario) -> Means:
    half = max(1, now.context // 2)
    # What has room if that helps, else half of it to see what it would bring.
    context = half if now.fits else now.longest_context or half
    used = replace(now, context=context)
    return Means(
        "shorter context",
        f"kvagent holds each request below {context:,} tokens",
        used,
        f"--max-model-len {context}",
        f"--ctx-size {context * now.requests}",
    )
