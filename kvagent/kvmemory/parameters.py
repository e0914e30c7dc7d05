"""How many parameters has a model, and how many of them does one token pass through?

From the sizes in a ``config.json``: embeddings, attention and feed-forward matrices. Norms and
biases are left out; they are about one part in a thousand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvagent.kvmemory.geometry import Weights

_ATTENTION = frozenset({"full_attention", "attention", "sliding_attention", "chunked_attention"})
_LINEAR = "linear_attention"

# Where the configuration does not say whether the output matrix is the embedding.
_TIED = frozenset({"cohere", "cohere2", "gemma", "gemma2", "gemma3_text"})
# Two matrices a feed-forward layer instead of three.
_NOT_GATED = frozenset({"starcoder2", "phi", "gpt_neox", "nemotron"})
# They have large parts that this does not count: embeddings for each layer, a feed-forward layer
# beside each expert.
_OTHER_PARTS = frozenset({"gemma3n_text", "gemma4_text", "llama4_text"})


def weights_of(config: Mapping[str, Any], kinds: Sequence[str]) -> Weights:
    """The weights' size, or what of it can be told; never an error.

    Known for transformers of attention (latent too), gated delta nets, and feed-forward layers, dense
    or mixtures of experts. With other parts, or a field that is no number, nothing is known.

    Args:
        config: the fields of a ``config.json``.
        kinds: what each layer is, in the words of ``layer_types``.
    """
    kind = str(config.get("model_type"))
    if kind in _OTHER_PARTS or not set(kinds) <= _ATTENTION | {_LINEAR}:
        return Weights()
    try:
        found = _weights(config, kind, kinds)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return Weights()
    parts = (found.parameters, found.active_parameters, found.experts, found.experts_per_token)
    return found if all(type(part) is int and part > 0 for part in parts) else Weights()


def _weights(config: Mapping[str, Any], kind: str, kinds: Sequence[str]) -> Weights:
    hidden, width = config["hidden_size"], config["intermediate_size"]
    attention = sum(
        _delta_net(config, hidden) if layer == _LINEAR else _attention(config, hidden)
        for layer in kinds
    )
    embedding = config["vocab_size"] * hidden
    output = 0 if config.get("tie_word_embeddings", kind in _TIED) else embedding
    matrices = (2 if kind in _NOT_GATED else 3) * hidden
    experts = _first(config, "n_routed_experts", "num_local_experts", "num_experts")
    if experts <= 1:
        dense = attention + len(kinds) * matrices * width
        # A token is looked up in the embedding and multiplied with the output matrix.
        return Weights(dense + embedding + output, dense + embedding, dtype=_published(config))
    chosen = _first(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk")
    expert_width = _first(config, "moe_intermediate_size") or width
    dense_layers = _first(config, "first_k_dense_replace")
    mixtures = len(kinds) - dense_layers
    shared_width = _first(config, "shared_expert_intermediate_size") or (
        _first(config, "n_shared_experts") * expert_width
    )
    always = attention + dense_layers * matrices * width
    always += mixtures * (matrices * shared_width + experts * hidden)
    expert = mixtures * matrices * expert_width
    return Weights(
        parameters=always + experts * expert + embedding + output,
        active_parameters=always + chosen * expert + embedding,
        expert_parameters=experts * expert,
        experts=experts,
        experts_per_token=chosen,
        dtype=_published(config),
    )


def _published(config: Mapping[str, Any]) -> str | None:
    """The data type of quantised weights, if the configuration names one that is known."""
    said = config.get("quantization_config")
    method = said.get("quant_method") if isinstance(said, Mapping) else None
    return {"fp8": "fp8", "mxfp4": "mxfp4", "awq": "int4", "gptq": "int4"}.get(str(method))


def _attention(config: Mapping[str, Any], hidden: int) -> int:
    heads = config["num_attention_heads"]
    if config.get("kv_lora_rank"):
        return _latent_attention(config, hidden, heads)
    dim = config.get("head_dim") or hidden // heads
    kv_heads = _first(config, "num_key_value_heads") or heads
    queries = (2 if config.get("attn_output_gate") else 1) * heads
    return int(hidden * dim * (queries + 2 * kv_heads + heads))


def _latent_attention(config: Mapping[str, Any], hidden: int, heads: int) -> int:
    rank, rope = config["kv_lora_rank"], config["qk_rope_head_dim"]
    query = heads * (config["qk_nope_head_dim"] + rope)
    through = config.get("q_lora_rank")
    queries = through * (hidden + query) if through else hidden * query
    expanded = rank * heads * (config["qk_nope_head_dim"] + config["v_head_dim"])
    out = heads * config["v_head_dim"] * hidden
    return int(queries + hidden * (rank + rope) + expanded + out)


def _delta_net(config: Mapping[str, Any], hidden: int) -> int:
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    # Queries, keys, values, a gate as wide as the values, two numbers a head; and the way out.
    return int(hidden * (2 * keys + 3 * values + 2 * config["linear_num_value_heads"]))


def _first(config: Mapping[str, Any], *names: str) -> int:
    """The first of these that is there, else 0."""
    for name in names:
        if value := config.get(name):
            return int(value)
    return 0
