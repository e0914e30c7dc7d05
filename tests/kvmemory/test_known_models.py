"""Do the figures of models that many know come out to the byte?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvagent.kvmemory.memory import (
    Storage,
    expanded_bytes,
    fixed_bytes,
    growth_bytes,
    request_bytes,
    unwindowed_bytes,
)
from kvagent.kvmemory.models import Model, model, models

GIB, MIB = 2**30, 2**20


@pytest.mark.parametrize(
    ("name", "kv_dtype", "growth", "fixed"),
    [
        ("Llama-3-8B", "f16", 131_072, 0),
        ("Llama-3-8B", "q8_0", 69_632, 0),
        ("Llama-3-8B", "q4_0", 36_864, 0),
        ("Llama-3-8B", "fp8", 65_536, 0),
        ("Llama-3.3-70B", "bf16", 327_680, 0),
        ("Qwen2.5-7B", "bf16", 57_344, 0),
        ("Qwen3-30B-A3B", "bf16", 98_304, 0),
        ("DeepSeek-V3", "bf16", 70_272, 0),
        ("DeepSeek-V3", "fp8_ds_mla", 40_016, 0),
        ("DeepSeek-V3", "nvfp4_ds_mla", 61 * 352, 0),
        ("Gemma-3-27B", "bf16", 81_920, 436_207_616),
        ("gpt-oss-20b", "bf16", 24_576, 3_145_728),
        ("Mistral-7B", "bf16", 131_072, 0),
        ("Mistral-7B-v0.1", "bf16", 0, 512 * MIB),
        ("Qwen3-Next-80B-A3B", "bf16", 24_576, 77_266_944),
        ("SmolLM2-135M", "f16", 23_040, 0),
        ("Falcon-7B", "f16", 32 * 2 * 64 * 2, 0),  # MQA: one KV head
        ("Llama-2-7B", "f16", 32 * 32 * 2 * 128 * 2, 0),  # MHA: as many as query heads
    ],
)
def test_bytes_per_token_and_per_sequence(
    name: str, kv_dtype: str, growth: int, fixed: int
) -> None:
    geometry, storage = model(name).geometry(), Storage.of(kv_dtype)
    assert (growth_bytes(geometry, storage), fixed_bytes(geometry, storage)) == (growth, fixed)


@pytest.mark.parametrize(
    ("name", "unwindowed"),
    [
        ("Gemma-3-27B", 507_904),
        ("gpt-oss-20b", 49_152),
        ("Mistral-7B-v0.1", 131_072),
        ("Llama-3-8B", 131_072),
    ],
)
def test_bytes_per_token_if_all_layers_saw_everything(name: str, unwindowed: int) -> None:
    assert unwindowed_bytes(model(name).geometry(), Storage.of()) == unwindowed


def test_latent_attention_kept_in_full() -> None:
    deepseek = model("DeepSeek-V3").geometry()
    assert expanded_bytes(deepseek, Storage.of()) == 4_997_120
    assert expanded_bytes(deepseek, Storage.of("fp8_ds_mla")) is None
    assert expanded_bytes(model("Llama-3-8B").geometry(), Storage.of()) is None


def test_a_state_in_sixteen_bits() -> None:
    storage = replace(Storage.of(), state_bytes=2)
    assert fixed_bytes(model("Qwen3-Next-80B-A3B").geometry(), storage) == 39_518_208


@pytest.mark.parametrize(
    ("kv_dtype", "tokens", "request_size"),
    [
        ("fp16", 8192, GIB),
        ("fp16", 32_768, 4 * GIB),
        ("q8_0", 32_768, 17 * GIB // 8),
        ("q4_0", 32_768, 9 * GIB // 8),
    ],
)
def test_a_request_of_llama_3_8b(kv_dtype: str, tokens: int, request_size: int) -> None:
    geometry = model("Llama-3-8B").geometry()
    assert request_bytes(geometry, tokens, Storage.of(kv_dtype)) == request_size


def test_a_window_is_the_most_that_is_kept() -> None:
    geometry = model("Mistral-7B-v0.1").geometry()
    assert request_bytes(geometry, 32_768, Storage.of()) == 512 * MIB
    assert request_bytes(geometry, 1_000, Storage.of()) == 1_000 * 131_072


@pytest.mark.parametrize("row", models(), ids=lambda row: row.name)
def test_every_row_says_where_it_is_from_and_its_sizes_add_up(row: Model) -> None:
    """A wrong number of layers, heads or widths shows in the number of parameters."""
    assert row.source
    weights = row.geometry().weights
    assert weights.parameters == pytest.approx(row.billions * 1e9, rel=0.02)
    if row.active_billions is not None:
        # Cards round it, some without the output matrix.
        assert weights.active_parameters == pytest.approx(row.active_billions * 1e9, rel=0.2)


def test_no_name_stands_for_two_models() -> None:
    names = [name for row in models() for name in (row.name, *row.aliases)]
    assert len(names) == len({name.lower() for name in names})
    assert all(
        model(name).name == row.name for row in models() for name in (row.name, *row.aliases)
    )
