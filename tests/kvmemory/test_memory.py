from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.kvmemory.dtypes import UnknownType, kv_types
from kvagent.kvmemory.geometry import Attention, Geometry, Latent, Layers, State
from kvagent.kvmemory.llamacpp import reserve
from kvagent.kvmemory.memory import (
    Storage,
    check,
    fixed_bytes,
    growth_bytes,
    heads_of_rank,
    request_bytes,
    unwindowed_bytes,
)
from kvagent.kvmemory.models import model
from kvagent.kvmemory.vllm import blocks_of
from tests.kvmemory.strategies import contexts, geometries, rule, storages


@pytest.mark.parametrize(
    ("heads", "tp", "each"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 16, 1), (3, 2, 2), (1, 4, 1)]
)
def test_heads_are_divided_but_no_rank_goes_without(heads: int, tp: int, each: int) -> None:
    assert heads_of_rank(heads, tp) == each


def test_a_latent_is_on_every_rank() -> None:
    deepseek = model("DeepSeek-V3").geometry()
    assert growth_bytes(deepseek, Storage.of(tp=8)) == growth_bytes(deepseek, Storage.of())


def test_a_state_is_divided() -> None:
    geometry = Geometry("s", (Layers(2, State(100, 1000)),))
    assert fixed_bytes(geometry, Storage.of()) == 2 * (200 + 4000)
    assert fixed_bytes(geometry, Storage.of(tp=4)) == 2 * 1050
    assert growth_bytes(geometry, Storage.of()) == 0


def test_scales_beside_each_head() -> None:
    geometry = Geometry("i", (Layers(32, Attention(8, 128, 128)),))
    assert growth_bytes(geometry, Storage.of("int8_per_token_head")) == 32 * 8 * (132 + 132)
    latent = Geometry("l", (Layers(1, Latent(512, 64)),))
    assert growth_bytes(latent, Storage.of("int8_per_token_head")) == 576 + 8


def test_a_window_as_long_as_the_model_can_go_is_none() -> None:
    layers = (Layers(2, Attention(1, 64, 64, 262_144)),)
    assert growth_bytes(Geometry("w", layers, context=131_072), Storage.of()) == 2 * 256
    assert fixed_bytes(Geometry("w", layers, context=131_072), Storage.of()) == 0
    assert growth_bytes(Geometry("w", layers), Storage.of()) == 0


def test_a_form_of_latent_attention_is_refused_elsewhere() -> None:
    check(model("DeepSeek-V3").geometry(), kv_types("fp8_ds_mla"))
    with pytest.raises(UnknownType, match="packs latent attention, which Llama-3-8B does not have"):
        check(model("Llama-3-8B").geometry(), kv_types("fp8_ds_mla"))


@rule
@given(geometries, storages, contexts, st.integers(0, 10_000))
def test_bytes_never_fall_with_the_context(
    geometry: Geometry, storage: Storage, tokens: int, more: int
) -> None:
    short = request_bytes(geometry, tokens, storage)
    assert short <= request_bytes(geometry, tokens + more, storage)
    assert (
        short <= unwindowed_bytes(geometry, storage) * tokens + fixed_bytes(geometry, storage) + 1
    )
    blocks, longer = (
        blocks_of(geometry, context, storage).request_bytes for context in (tokens, tokens + more)
    )
    assert blocks <= longer


@rule
@given(geometries, storages, contexts)
def test_once_the_windows_are_full_a_request_is_what_grows_and_what_is_fixed(
    geometry: Geometry, storage: Storage, tokens: int
) -> None:
    unlimited = replace(geometry, context=None)
    tokens += max(unlimited.windows, default=0)
    parts = growth_bytes(unlimited, storage) * tokens + fixed_bytes(unlimited, storage)
    # Each is rounded up by itself where a type has fractions of a byte.
    assert 0 <= parts - request_bytes(unlimited, tokens, storage) <= tokens + 1


@rule
@given(geometries, storages, contexts)
def test_more_ranks_never_need_more_each(geometry: Geometry, storage: Storage, tokens: int) -> None:
    double = replace(storage, tp=storage.tp * 2)
    assert request_bytes(geometry, tokens, double) <= request_bytes(geometry, tokens, storage)


@rule
@given(
    st.integers(1, 16),
    storages,
    contexts,
    st.sampled_from([16, 32, 64, 128]),
    st.sampled_from([64, 128]),
)
def test_rounding_to_blocks_adds_less_than_one_block_a_sequence(
    heads: int, storage: Storage, tokens: int, block_size: int, dim: int
) -> None:
    geometry = Geometry("plain", (Layers(32, Attention(heads, dim, dim)),))
    blocks = blocks_of(geometry, tokens, storage, block_size=block_size)
    over = blocks.request_bytes - request_bytes(geometry, tokens, storage)
    assert 0 <= over < blocks.block_bytes + 1


@rule
@given(geometries, storages, contexts)
def test_a_server_never_reserves_less_than_is_needed(
    geometry: Geometry, storage: Storage, tokens: int
) -> None:
    one = replace(storage, tp=1, state_bytes=4)
    without_indexer = replace(
        geometry,
        layers=tuple(
            layers for layers in geometry.layers if type(layers.layer).__name__ != "Indexer"
        )
        or (Layers(1, Attention(1, 64, 64)),),
    )
    assert reserve(without_indexer, tokens, 1, one).bytes >= request_bytes(
        without_indexer, tokens, one
    )


@rule
@given(geometries, storages, contexts, st.integers(1, 50))
def test_the_space_for_requests_holds_them(
    geometry: Geometry, storage: Storage, tokens: int, requests: int
) -> None:
    blocks = blocks_of(geometry, tokens, storage)
    space = blocks.space_for(requests)
    assert blocks.pool(space).concurrency >= requests
    if blocks.block_bytes:
        assert blocks.pool(space - 1 - blocks.block_bytes).concurrency < requests
