"""Does a KV space become the blocks and tokens that vLLM makes of it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.kvmemory import vllm
from kvagent.kvmemory.geometry import Attention, Geometry, Indexer, Latent, Layer, Layers, State
from kvagent.kvmemory.gpus import GIB
from kvagent.kvmemory.huggingface import geometry
from kvagent.kvmemory.memory import Storage, growth_bytes
from kvagent.kvmemory.models import model
from kvagent.kvmemory.vllm import Blocks, Group, blocks_of, tokens_in

RECORDED = json.loads(
    (Path(__file__).parent / "recorded" / "vllm_pools.json").read_text(encoding="utf-8")
)["pools"]


def layer(kind: str, *sizes: Any) -> Layer:
    match kind:
        case "attention":
            return Attention(*sizes)
        case "latent":
            return Latent(sizes[0] - 64, 64)
        case "indexer":
            return Indexer(*sizes)
        case _:
            return State(*sizes)


@pytest.mark.parametrize("name", sorted({row["model"] for row in RECORDED}))
def test_as_vllm_s_own_functions(name: str) -> None:
    rows = [row for row in RECORDED if row["model"] == name]
    assert rows
    for row in rows:
        kinds = tuple(Layers(count, layer(*rest)) for count, *rest in row["layers"])
        pool = blocks_of(
            Geometry(name, kinds),
            row["context"],
            Storage.of(row["kv_dtype"], row["tp"]),
            block_size=row["block_size"],
            in_flight=row["in_flight"],
        ).pool(row["space_bytes"])
        found = (pool.blocks, pool.tokens, pool.concurrency)
        assert found == (row["blocks"], row["tokens"], row["concurrency"]), row


SMALL: dict[str, Any] = {
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_size": 128,
}
DELTA_NETS: dict[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4,
}


@pytest.mark.parametrize(
    ("config", "gib", "tokens", "concurrency"),
    [
        (model("SmolLM2-135M").config, 2, 93_184, "11.38"),
        (
            {
                **SMALL,
                "model_type": "gemma3_text",
                "num_hidden_layers": 12,
                "sliding_window": 512,
                "sliding_window_pattern": 5,
            },
            1,
            397_093,
            "48.47",
        ),
        (
            {**SMALL, "model_type": "mistral", "num_hidden_layers": 3, "sliding_window": 512},
            1,
            2_130_310,
            "260.05",
        ),
        (
            {**SMALL, **DELTA_NETS, "model_type": "qwen3_next", "num_hidden_layers": 8},
            1,
            958_698,
            "117.03",
        ),
    ],
    ids=["full", "some with a window", "all with a window", "gated delta nets"],
)
def test_the_line_of_a_server_that_was_started(
    config: dict[str, Any], gib: int, tokens: int, concurrency: str
) -> None:
    """vLLM 0.32 on a CPU: "KV cache size: ... tokens, Maximum concurrency for 8,192 tokens ..."."""
    pool = blocks_of(
        geometry(config),
        8192,
        Storage.of(),
        block_size=vllm.CPU_BLOCK,
        in_flight=vllm.CPU_IN_FLIGHT,
    ).pool(gib * GIB)
    assert (pool.tokens, f"{pool.concurrency:.2f}") == (tokens, concurrency)


def test_without_windows_the_tokens_are_whole_blocks_of_all_layers() -> None:
    llama = model("Llama-3-8B").geometry()
    space, storage = 20 * GIB + 5, Storage.of()
    blocks = space // (growth_bytes(llama, storage) * 16)
    assert tokens_in(llama, space, 8192, storage) == blocks * 16


def test_the_last_digit_is_vllm_s() -> None:
    """It multiplies in floating point and cuts off: 228 blocks of 200 tokens are not 45,600."""
    blocks = Blocks((Group(1, 200, 25, grows=True),), block_bytes=1, context=5000)
    assert blocks.pool(228).tokens == int(228 / 25 * 5000) == 45_599


def test_chunked_attention_is_allocated_like_full_attention() -> None:
    chunked = Geometry("c", (Layers(6, Attention(8, 64, 64, 8192, chunked=True)),))
    full = Geometry("f", (Layers(6, Attention(8, 64, 64)),))
    assert blocks_of(chunked, 32_768, Storage.of()) == blocks_of(full, 32_768, Storage.of())


def test_a_hybrid_gets_blocks_as_large_as_its_states() -> None:
    blocks = blocks_of(model("Qwen3-Next-80B-A3B").geometry(), 32_768, Storage.of("bf16"))
    # 2 heads of 256 twice in 2 bytes are 2,048 bytes a token; a state in 16 bits is 1,097,728.
    assert blocks.block_size == 544 == -(-1_097_728 // (16 * 2_048)) * 16
    assert len(blocks.groups) == 4


@pytest.mark.parametrize(
    ("gib", "name", "tokens"),
    [(24, "RTX-4090", 4096), (80, "H100", 16_384), (80, "A100-80GB", 4096), (179, "B200", 32_768)],
)
def test_tokens_in_flight_by_gpu(gib: int, name: str, tokens: int) -> None:
    assert vllm.in_flight_tokens(gib * GIB, name) == tokens


@pytest.mark.parametrize(("name", "tokens"), [("Llama-3-8B", 128), ("DeepSeek-V3", 16)])
def test_tokens_of_a_block_on_a_cpu(name: str, tokens: int) -> None:
    assert vllm.cpu_block(model(name).geometry()) == tokens
