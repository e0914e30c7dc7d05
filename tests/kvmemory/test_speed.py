from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.kvmemory.geometry import Attention, Geometry, Latent, Layers, State, Weights
from kvagent.kvmemory.gpus import GPU
from kvagent.kvmemory.memory import Storage, request_bytes
from kvagent.kvmemory.models import model
from kvagent.kvmemory.speed import (
    EFFICIENCY,
    prefill_flops,
    prefill_seconds,
    step_bytes,
    step_seconds,
)
from tests.kvmemory.strategies import geometries, rule

LLAMA = model("Llama-3-8B").geometry()


def seen(tokens: int, window: int | None) -> int:
    """Counted one by one: how many tokens each token sees, itself included."""
    return sum(min(place + 1, window or tokens) for place in range(tokens))


@pytest.mark.parametrize("window", [None, 1, 3, 10, 50])
@pytest.mark.parametrize("cached", [0, 1, 7, 20])
def test_attention_compares_each_token_with_those_it_sees(window: int | None, cached: int) -> None:
    layers = (Layers(2, Attention(1, 8, 16, window)), Layers(3, State(5, 5)))
    geometry = Geometry("g", layers, query_heads=4, weights=Weights(100))
    # A multiplication and an addition for each number of a key and of a value.
    pairs = seen(20, window) - seen(cached, window)
    assert prefill_flops(geometry, 20, cached) == 2 * 100 * (20 - cached) + 2 * 2 * 4 * 24 * pairs


def test_latent_attention_is_computed_in_full_in_a_prefill() -> None:
    latent = Geometry(
        "l", (Layers(1, Latent(512, 64, Attention(128, 192, 128))),), weights=Weights(1)
    )
    assert prefill_flops(latent, 1) == 2 + 2 * 128 * 320


def test_of_a_mixture_of_experts_only_those_that_are_chosen_count() -> None:
    mixture = model("Qwen3-30B-A3B").geometry()
    flops = prefill_flops(mixture, 1)
    assert flops is not None
    assert 2 * 3.0e9 < flops < 2 * 3.2e9


def test_seconds() -> None:
    gpu = GPU("g", 80, gb_per_s=1000, tflops=100)
    flops = prefill_flops(LLAMA, 1000)
    assert flops is not None
    assert prefill_seconds(LLAMA, gpu, 1, 1000) == flops / (100e12 * EFFICIENCY)
    assert prefill_seconds(LLAMA, gpu, 4, 1000) == flops / (400e12 * EFFICIENCY)
    assert step_seconds(5 * 10**9, gpu) == 0.005


def test_what_is_not_known_is_none() -> None:
    assert prefill_seconds(LLAMA, GPU("g", 80), 1, 10) is None
    assert prefill_flops(Geometry("g", LLAMA.layers), 10) is None
    assert step_seconds(10, GPU("g", 80)) is None


def test_a_step_reads_the_weights_once_and_all_requests_kv() -> None:
    storage = Storage.of()
    one, four = (step_bytes(LLAMA, storage, 8192, count, "bf16") for count in (1, 4))
    assert four - one == 3 * request_bytes(LLAMA, 8192, storage)
    weights = LLAMA.weights.active_parameters
    assert weights is not None
    assert one == 2 * weights + 2**30


@rule
@given(geometries, st.integers(1, 5000), st.integers(0, 5000))
def test_what_is_cached_is_not_computed(geometry: Geometry, tokens: int, cached: int) -> None:
    cold, warm = prefill_flops(geometry, tokens), prefill_flops(geometry, tokens, cached)
    assert cold is not None
    assert warm is not None
    assert 0 <= warm <= cold
