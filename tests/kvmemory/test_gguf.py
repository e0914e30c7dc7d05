from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.cli.demo.server import ServerError, default_model
from kvagent.gguf import GGUF
from kvagent.kvmemory.geometry import (
    Attention,
    Geometry,
    GeometryError,
    Latent,
    Layers,
    State,
)
from kvagent.kvmemory.gguf import geometry
from kvagent.kvmemory.memory import Storage, growth_bytes, request_bytes
from kvagent.kvmemory.vllm import blocks_of
from kvagent.kvmemory.weights import weight_bytes
from tests.kvmemory.strategies import rule


@dataclass(frozen=True)
class Tensor:
    name: str
    elements: int
    type: int


def keys(architecture: str, **values: Any) -> dict[str, Any]:
    """Metadata of an architecture; two underscores stand for a full stop."""
    own = {f"{architecture}.{key.replace('__', '.')}": value for key, value in values.items()}
    return {"general.architecture": architecture, **own}


def plain(architecture: str = "llama", **more: Any) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "block_count": 24,
        "context_length": 4096,
        "embedding_length": 1024,
        "attention__head_count": 16,
        "attention__head_count_kv": 4,
    }
    return keys(architecture, **{**sizes, **more})


def layers_of(metadata: dict[str, Any]) -> tuple[Layers, ...]:
    return geometry(metadata).layers


def test_the_file_of_a_real_model() -> None:
    try:
        path = default_model()
    except ServerError:
        pytest.skip("the model is not installed (group demo)")
    file = GGUF.read(path)
    found = geometry(file.metadata, file.tensors)
    assert found.layers == (Layers(30, Attention(3, 64, 64)),)
    assert (found.context, found.query_heads) == (8192, 9)
    assert growth_bytes(found, Storage.of()) == 23_040
    assert found.weights.parameters == 134_515_008
    # The file is the weights, the vocabulary and the metadata.
    rest = path.stat().st_size - weight_bytes(found.weights)
    assert 0 < rest < 4_000_000


def test_a_plain_model() -> None:
    found = geometry(plain(), name="mine")
    assert found.name == "mine"
    assert found.layers == (Layers(24, Attention(4, 64, 64)),)
    assert geometry({**plain(), "general.name": "Its name"}).name == "Its name"


@pytest.mark.parametrize(
    ("more", "layer"),
    [
        ({"attention__head_count_kv": None}, Attention(16, 64, 64)),
        ({"attention__key_length": 128, "attention__value_length": 96}, Attention(4, 128, 96)),
        ({"attention__key_length": 128}, Attention(4, 128, 64)),
        # llama.cpp does not use the window of these.
        ({"attention__sliding_window": 512}, Attention(4, 64, 64)),
    ],
)
def test_one_kind_of_layer(more: dict[str, Any], layer: Attention) -> None:
    metadata = {key: value for key, value in plain(**more).items() if value is not None}
    assert layers_of(metadata) == (Layers(24, layer),)


@pytest.mark.parametrize(
    ("architecture", "full"), [("gemma2", 12), ("gemma3", 4), ("gpt-oss", 12), ("cohere2", 6)]
)
def test_windows_where_llamacpp_has_them(architecture: str, full: int) -> None:
    metadata = plain(architecture, attention__sliding_window=512)
    found = {
        layers.layer.window: layers.count
        for layers in layers_of(metadata)
        if isinstance(layers.layer, Attention)
    }
    assert found == {None: full, 512: 24 - full}


def test_windows_where_the_file_has_them() -> None:
    pattern = [True, True, False] * 8
    metadata = plain(
        "gemma4",
        attention__sliding_window=512,
        attention__sliding_window_pattern=pattern,
        attention__key_length=512,
        attention__value_length=512,
        attention__key_length_swa=256,
        attention__value_length_swa=256,
        attention__head_count_kv=[8 if windowed else 2 for windowed in pattern],
        attention__shared_kv_layers=6,
    )
    assert layers_of(metadata) == (
        Layers(12, Attention(8, 256, 256, 512)),
        Layers(6, Attention(2, 512, 512)),
    )
    every_third = plain("olmo9", attention__sliding_window=9, attention__sliding_window_pattern=3)
    assert Layers(8, Attention(4, 64, 64)) in layers_of(every_third)


def test_a_window_of_unknown_layers_is_refused() -> None:
    with pytest.raises(GeometryError, match="not which of its layers have it"):
        geometry(plain("newcomer", attention__sliding_window=512))


def test_latent_attention_and_files_of_before_it_was_kept() -> None:
    latent = plain(
        "deepseek2",
        attention__head_count_kv=1,
        attention__kv_lora_rank=512,
        rope__dimension_count=64,
        attention__key_length=576,
        attention__value_length=512,
        attention__key_length_mla=192,
        attention__value_length_mla=128,
    )
    assert layers_of(latent) == (Layers(24, Latent(512, 64, Attention(16, 192, 128))),)
    full = {
        key: value for key, value in latent.items() if not key.endswith(("_mla", "_length"))
    } | keys(
        "deepseek2",
        block_count=24,
        embedding_length=1024,
        attention__key_length=192,
        attention__value_length=128,
    )
    assert layers_of(full) == (Layers(24, Attention(16, 192, 128)),)


SSM: dict[str, Any] = {
    "ssm__conv_kernel": 4,
    "ssm__inner_size": 2048,
    "ssm__state_size": 128,
    "ssm__group_count": 16,
}
STATE = State(conv=3 * (2048 + 2 * 16 * 128), recurrent=128 * 2048)


@pytest.mark.parametrize(
    ("metadata", "layers"),
    [
        (
            plain("qwen3next", **SSM, full_attention_interval=4),
            (Layers(18, STATE), Layers(6, Attention(4, 64, 64))),
        ),
        (
            plain("qwen35", **SSM),
            (Layers(18, STATE), Layers(6, Attention(4, 64, 64))),
        ),
        (
            plain("granitehybrid", **SSM, attention__head_count_kv=[0, 0, 0, 4] * 6),
            (Layers(18, STATE), Layers(6, Attention(4, 64, 64))),
        ),
        (
            plain("falcon-h1", **SSM),
            (Layers(24, STATE), Layers(24, Attention(4, 64, 64))),
        ),
        (
            plain("lfm2", shortconv__l_cache=3, attention__head_count_kv=[0, 0, 4] * 8),
            (Layers(16, State(1024 * 2, 0)), Layers(8, Attention(4, 64, 64))),
        ),
        (
            plain(
                "nemotron_h",
                **SSM,
                attention__head_count_kv=[0, 0, 4] * 8,
                feed_forward_length=[0, 512, 0] * 8,
            ),
            (Layers(8, STATE), Layers(8, Attention(4, 64, 64))),
        ),
    ],
    ids=lambda value: value["general.architecture"] if isinstance(value, dict) else "",
)
def test_hybrids(metadata: dict[str, Any], layers: tuple[Layers, ...]) -> None:
    assert layers_of(metadata) == layers


def test_heads_that_predict_further_tokens_keep_nothing() -> None:
    assert layers_of(plain("glm4moe", nextn_predict_layers=1)) == (
        Layers(23, Attention(4, 64, 64)),
    )


def test_weights() -> None:
    tensors = (
        Tensor("token_embd.weight", 1000 * 64, 1),
        Tensor("output.weight", 1000 * 64, 1),
        Tensor("blk.0.attn_q.weight", 64 * 64, 8),
        Tensor("blk.0.ffn_up_exps.weight", 8 * 64 * 128, 2),
    )
    metadata = plain(block_count=1, expert_count=8, expert_used_count=2)
    weights = geometry(metadata, tensors).weights
    assert weights.bytes == 2 * 128_000 + 4096 * 34 // 32 + 65_536 * 18 // 32
    assert weights.parameters == 128_000 + 4096 + 65_536
    assert weights.active_parameters == 64_000 + 4096 + 65_536 // 4
    assert weights.expert_parameters == 65_536
    unknown = (*tensors, Tensor("new", 32, 999))
    assert geometry(metadata, unknown).weights.bytes is None


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({}, "does not name its architecture"),
        ({"general.architecture": 3}, "does not name its architecture"),
        (keys("llama"), "no llama.block_count"),
        (plain(block_count=0), "block_count leaves 0 layers"),
        (plain(block_count=10**12), "block_count leaves"),
        (plain(block_count="24"), "llama.block_count is '24', not a whole number"),
        (plain(attention__head_count=None), "no llama.attention.head_count"),
        (plain(attention__head_count_kv=[4]), "names 1 of 24 layers"),
        (plain(attention__head_count_kv=-1), "is '-1', not a whole number"),
        (plain(attention__head_count_kv=0), "no layer of llama that keeps anything"),
        (plain(embedding_length=None), "no llama.embedding_length"),
        (plain("rwkv7", wkv__head_size=64), "what rwkv7 keeps is not known"),
        (
            plain("gemma3", attention__sliding_window=5, attention__sliding_window_pattern=[True]),
            "names 1 of 24 layers",
        ),
    ],
)
def test_broken_metadata_says_what_is_wrong(metadata: dict[str, Any], why: str) -> None:
    given_keys = {key: value for key, value in metadata.items() if value is not None}
    with pytest.raises(GeometryError, match=why):
        geometry(given_keys)


VALUES = st.none() | st.booleans() | st.integers(-2, 99) | st.text(max_size=3) | st.floats()


@rule
@given(
    st.sampled_from(["llama", "gemma3", "qwen3next", "deepseek2", "lfm2", "falcon-h1", "llama4"]),
    st.dictionaries(
        st.sampled_from(
            [
                *("block_count", "embedding_length", "context_length", "expert_count"),
                *("attention__head_count", "attention__head_count_kv", "attention__key_length"),
                *("attention__sliding_window", "attention__sliding_window_pattern"),
                *("attention__kv_lora_rank", "attention__shared_kv_layers", "ssm__conv_kernel"),
                *("shortconv__l_cache", "full_attention_interval", "nextn_predict_layers"),
            ]
        ),
        VALUES | st.lists(VALUES, max_size=30),
    ),
)
def test_any_metadata_gives_a_geometry_or_says_why_not(
    architecture: str, more: dict[str, Any]
) -> None:
    try:
        found = geometry(plain(architecture, **more))
    except GeometryError:
        return
    assert isinstance(found, Geometry)
    assert all(layers.count > 0 for layers in found.layers)
    assert request_bytes(found, 1000, Storage.of()) > 0
    assert blocks_of(found, 1000, Storage.of()).block_bytes > 0
