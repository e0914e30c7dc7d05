from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.kvmemory.geometry import (
    Attention,
    Geometry,
    GeometryError,
    Indexer,
    Latent,
    Layers,
    State,
)
from kvagent.kvmemory.huggingface import geometry
from kvagent.kvmemory.memory import Storage, request_bytes
from kvagent.kvmemory.vllm import blocks_of
from tests.kvmemory.strategies import rule

PLAIN: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "max_position_embeddings": 8192,
}


def layers_of(config: dict[str, Any]) -> tuple[Layers, ...]:
    return geometry(config).layers


def test_a_plain_model() -> None:
    found = geometry(PLAIN, "mine")
    assert found.name == "mine"
    assert found.layers == (Layers(32, Attention(8, 128, 128)),)
    assert (found.context, found.query_heads) == (8192, 32)


def test_without_kv_heads_there_are_as_many_as_query_heads() -> None:
    config = {key: value for key, value in PLAIN.items() if key != "num_key_value_heads"}
    assert layers_of(config) == (Layers(32, Attention(32, 128, 128)),)


@pytest.mark.parametrize(
    ("more", "layer"),
    [
        ({"head_dim": 64}, Attention(8, 64, 64)),
        ({"head_dim": None}, Attention(8, 128, 128)),
        ({"v_head_dim": 96}, Attention(8, 128, 96)),
        ({"num_key_value_heads": 1}, Attention(1, 128, 128)),
        ({"num_key_value_heads": 8.0}, Attention(8, 128, 128)),
        ({"sliding_window": None}, Attention(8, 128, 128)),
        ({"sliding_window": 4096}, Attention(8, 128, 128, 4096)),
        ({"sliding_window": 4096, "use_sliding_window": False}, Attention(8, 128, 128)),
        ({"model_type": "qwen2", "sliding_window": 4096}, Attention(8, 128, 128)),
    ],
)
def test_one_kind_of_layer(more: dict[str, Any], layer: Attention) -> None:
    assert layers_of({**PLAIN, **more}) == (Layers(32, layer),)


@pytest.mark.parametrize(
    ("more", "full", "windowed"),
    [
        ({"model_type": "gemma2"}, 16, 16),
        ({"model_type": "gemma3_text"}, 5, 27),
        ({"model_type": "gpt_oss"}, 16, 16),
        ({"model_type": "cohere2"}, 8, 24),
        ({"sliding_window_pattern": 8}, 4, 28),
        ({"_sliding_window_pattern": 8}, 4, 28),
        ({"sliding_window_pattern": "LLLG"}, 8, 24),
        ({"layer_types": ["full_attention"] * 3 + ["sliding_attention"] * 29}, 3, 29),
        # What is named beyond the layers that there are was left over.
        ({"layer_types": ["sliding_attention"] * 32 + ["full_attention"]}, 0, 32),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 28}, 28, 4),
        ({"model_type": "gemma3n_text", "num_kv_shared_layers": 12}, 4, 16),
    ],
)
def test_layers_with_and_without_a_window(more: dict[str, Any], full: int, windowed: int) -> None:
    found = {
        layers.layer.window: layers.count
        for layers in layers_of({**PLAIN, "sliding_window": 512, **more})
        if isinstance(layers.layer, Attention)
    }
    assert (found.get(None, 0), found.get(512, 0)) == (full, windowed)


def test_the_text_part_counts_and_leaves_out_its_class_s_defaults() -> None:
    """As Gemma-3-4B is published."""
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    assert layers_of({"model_type": "gemma3", "text_config": text}) == (
        Layers(29, Attention(4, 256, 256, 1024)),
        Layers(5, Attention(4, 256, 256)),
    )


def test_null_in_the_text_part_is_not_left_out() -> None:
    text = {**PLAIN, "model_type": "mistral", "sliding_window": None}
    assert layers_of({"model_type": "mistral3", "text_config": text}) == (
        Layers(32, Attention(8, 128, 128)),
    )


def test_a_text_part_in_a_text_part() -> None:
    assert layers_of({"thinker_config": {"text_config": PLAIN}}) == layers_of(PLAIN)


def test_latent_attention() -> None:
    config = {**PLAIN, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert layers_of(config) == (Layers(32, Latent(512, 64)),)
    config |= {"qk_nope_head_dim": 128, "v_head_dim": 128, "index_head_dim": 128}
    assert layers_of(config) == (
        Layers(32, Latent(512, 64, Attention(32, 192, 128))),
        Layers(32, Indexer(128)),
    )


def test_gated_delta_nets() -> None:
    config = {
        **PLAIN,
        "model_type": "qwen3_next",
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }
    state = State(conv=8192 * 3, recurrent=32 * 128 * 128)
    assert layers_of(config) == (Layers(24, state), Layers(8, Attention(8, 128, 128)))
    config["full_attention_interval"] = 8
    assert layers_of(config) == (Layers(28, state), Layers(4, Attention(8, 128, 128)))
    config["mamba_ssm_dtype"] = "float32"
    assert State(8192 * 3, 32 * 128 * 128, recurrent_bytes=4) in [
        layers.layer for layers in layers_of(config)
    ]


MAMBA = {
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_d_state": 256,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
}
MAMBA_STATE = State(conv=(8192 + 2 * 256) * 3, recurrent=8192 * 256)


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        (
            {"layer_types": ["mamba"] * 28 + ["attention"] * 4},
            (Layers(28, MAMBA_STATE), Layers(4, Attention(8, 128, 128))),
        ),
        (
            {"attn_layer_indices": [3, 9]},
            (Layers(30, MAMBA_STATE), Layers(2, Attention(8, 128, 128))),
        ),
        (
            {"attn_layer_period": 8, "attn_layer_offset": 4},
            (Layers(28, MAMBA_STATE), Layers(4, Attention(8, 128, 128))),
        ),
        (
            {"layer_types": ["hybrid"] * 32},
            (Layers(32, Attention(8, 128, 128)), Layers(32, MAMBA_STATE)),
        ),
        (
            {"hybrid_override_pattern": "MEM*-"},
            (Layers(2, MAMBA_STATE), Layers(1, Attention(8, 128, 128))),
        ),
        (
            {"layer_types": ["conv"] * 22 + ["full_attention"] * 10, "conv_L_cache": 3},
            (Layers(22, State(4096 * 2, 0)), Layers(10, Attention(8, 128, 128))),
        ),
    ],
)
def test_hybrids(more: dict[str, Any], layers: tuple[Layers, ...]) -> None:
    assert layers_of({**PLAIN, **MAMBA, **more}) == layers


def test_chunked_attention() -> None:
    config = {**PLAIN, "model_type": "llama4_text", "attention_chunk_size": 8192}
    assert layers_of(config) == (
        Layers(24, Attention(8, 128, 128, 8192, chunked=True)),
        Layers(8, Attention(8, 128, 128)),
    )


def test_larger_heads_where_everything_is_seen() -> None:
    config = {
        **PLAIN,
        "model_type": "gemma4_text",
        "head_dim": 256,
        "sliding_window": 512,
        "global_head_dim": 512,
        "attention_k_eq_v": True,
        "num_global_key_value_heads": 2,
    }
    assert layers_of(config) == (
        Layers(27, Attention(8, 256, 256, 512)),
        Layers(5, Attention(2, 512, 512)),
    )


def test_heads_that_differ_by_layer() -> None:
    config = {**PLAIN, "num_hidden_layers": 3, "num_key_value_heads": [2, 4, 2]}
    assert layers_of(config) == (
        Layers(2, Attention(2, 128, 128)),
        Layers(1, Attention(4, 128, 128)),
    )
    blocks = [
        {"attention": {"n_heads_in_group": 8}},
        {"attention": {"no_op": True, "n_heads_in_group": None}},
        {"attention": {"n_heads_in_group": 4}},
    ]
    config = {**PLAIN, "block_configs": blocks}
    assert layers_of(config) == (
        Layers(1, Attention(4, 128, 128)),
        Layers(1, Attention(8, 128, 128)),
    )


def test_other_words_for_the_same() -> None:
    config = {"n_layer": 12, "n_head": 12, "n_embd": 768, "n_positions": 1024}
    found = geometry(config)
    assert found.layers == (Layers(12, Attention(12, 64, 64)),)
    assert found.context == 1024


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"num_hidden_layers": None}, "no num_hidden_layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0, not a whole number above 0"),
        ({"num_hidden_layers": "32"}, 'num_hidden_layers is "32"'),
        ({"num_hidden_layers": True}, "num_hidden_layers is true"),
        ({"num_hidden_layers": 1.5}, "num_hidden_layers is 1.5"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ({"num_key_value_heads": -8}, "num_key_value_heads is -8"),
        ({"num_key_value_heads": {"a": 1}}, "num_key_value_heads is"),
        ({"num_attention_heads": None, "num_key_value_heads": None}, "no num_attention_heads"),
        ({"hidden_size": None}, "no hidden_size"),
        ({"hidden_size": 16}, "hidden_size 16 is less than num_attention_heads 32"),
        ({"sliding_window": "4096"}, "sliding_window is"),
        ({"layer_types": ["full_attention"]}, "names 1 of 32 layers"),
        ({"layer_types": ["sideways"] * 32}, "unknown kind 'sideways'"),
        ({"hybrid_override_pattern": "M?"}, "unknown letter '[?]'"),
        ({"kv_lora_rank": 512}, "no qk_rope_head_dim"),
        ({"compress_ratios": [1, 4]}, "compress_ratios"),
        ({"num_key_value_heads": [8]}, "names 1 layers only"),
        ({"num_kv_shared_layers": 40}, "no layer that keeps anything"),
        ({"block_configs": [{}]}, "a block without attention"),
        ({"max_position_embeddings": "much"}, "max_position_embeddings is"),
    ],
)
def test_a_broken_configuration_says_what_is_wrong(more: dict[str, Any], why: str) -> None:
    with pytest.raises(GeometryError, match=why):
        geometry({**PLAIN, **more})


@pytest.mark.parametrize("config", [{}, [], None, "llama"])
def test_no_configuration_at_all(config: Any) -> None:
    with pytest.raises(GeometryError):
        geometry(config)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 99) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)
FIELDS = (
    *PLAIN,
    *MAMBA,
    *("layer_types", "sliding_window", "sliding_window_pattern", "use_sliding_window", "head_dim"),
    *("max_window_layers", "kv_lora_rank", "qk_rope_head_dim", "text_config", "block_configs"),
    *("linear_num_value_heads", "num_kv_shared_layers", "attn_layer_period", "attn_layer_offset"),
    *("hybrid_override_pattern", "n_routed_experts", "vocab_size", "intermediate_size"),
    *("attn_layer_indices", "attention_chunk_size", "full_attention_interval", "index_head_dim"),
)


@rule
@given(st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_any_json_gives_a_geometry_or_says_why_not(fields: dict[str, Any]) -> None:
    try:
        found = geometry({**PLAIN, **fields})
    except GeometryError:
        return
    assert isinstance(found, Geometry)
    assert all(layers.count > 0 for layers in found.layers)
    assert found.weights.parameters is None or found.weights.parameters > 0
    assert request_bytes(found, 1000, Storage.of()) > 0
    assert blocks_of(found, 1000, Storage.of()).block_bytes > 0
