"""How long do prefill and decode take at best?

Bounds from a GPU's compute and its memory's bandwidth, not measurements: a server is slower by what
it does besides.
"""

from __future__ import annotations

from kvagent.kvmemory.geometry import Attention, Geometry, Latent
from kvagent.kvmemory.gpus import GPU
from kvagent.kvmemory.memory import Storage, request_bytes
from kvagent.kvmemory.weights import read_bytes

EFFICIENCY = 0.5
"""The share of its peak that a GPU reaches in a prefill; 0.4 to 0.6 is usual."""


def prefill_flops(geometry: Geometry, tokens: int, cached: int = 0) -> float | None:
    """Multiplications and additions to prefill ``tokens``, of which the first ``cached`` are there.

    Two for each parameter that a token passes through, and those of attention, where each token is
    compared with all before it that its layer sees. None: the model's size is not known.
    """
    weights = geometry.weights
    active = weights.active_parameters or weights.parameters
    if active is None:
        return None
    new = max(tokens - cached, 0)
    return 2.0 * active * new + _attention_flops(geometry, tokens, cached)


def _attention_flops(geometry: Geometry, tokens: int, cached: int) -> float:
    total = 0.0
    for group in geometry.layers:
        layer = group.layer
        if isinstance(layer, Latent) and layer.expanded is not None:
            heads, size = layer.expanded.kv_heads, layer.expanded.key_dim + layer.expanded.value_dim
            seen = _seen(tokens, None) - _seen(cached, None)
        elif isinstance(layer, Attention):
            heads, size = geometry.query_heads or layer.kv_heads, layer.key_dim + layer.value_dim
            seen = _seen(tokens, layer.window) - _seen(cached, layer.window)
        else:
            continue
        total += group.count * 2.0 * heads * size * max(seen, 0.0)
    return total


def _seen(tokens: int, window: int | None) -> float:
    """Pairs of a token and one that it sees, over all of the first ``tokens``."""
    if window is None or tokens <= window:
        return tokens * (tokens + 1) / 2
    return window * (window + 1) / 2 + (tokens - window) * float(window)


def prefill_seconds(
    geometry: Geometry, gpu: GPU, tp: int, tokens: int, cached: int = 0
) -> float | None:
    """Seconds to prefill one prompt at `EFFICIENCY`; None where size or compute is not known."""
    flops = prefill_flops(geometry, tokens, cached)
    if flops is None or gpu.tflops is None:
        return None
    return flops / (gpu.tflops * 1e12 * tp * EFFICIENCY)


def step_bytes(
    geometry: Geometry, storage: Storage, context: int, requests: int, weights: str | None
) -> int:
    """Bytes that one rank reads to give each request its next token: weights, and all their KV.

    Raises:
        UnknownWeights: nothing says how large the model is.
    """
    read = read_bytes(geometry.weights, requests, weights)
    return -(-read // storage.tp) + requests * request_bytes(geometry, context, storage)


def step_seconds(read: int, gpu: GPU) -> float | None:
    """Seconds of one decode step that reads so many bytes, at the full bandwidth."""
    return None if gpu.gb_per_s is None else read / (gpu.gb_per_s * 1e9)
