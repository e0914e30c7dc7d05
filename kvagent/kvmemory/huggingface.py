"""What does a Hugging Face ``config.json`` say about a model's geometry?

Only the fields that memory depends on are read. A configuration that leaves a needed one out, or
holds something else in its place, is refused with the field's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from kvagent.kvmemory.geometry import (
    Attention,
    Geometry,
    GeometryError,
    Indexer,
    Latent,
    Layer,
    State,
    alike,
)
from kvagent.kvmemory.parameters import weights_of

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")

# Model types without `layer_types`: every n-th layer sees everything, the others have a window.
_EVERY_NTH_IS_FULL = {
    "cohere2": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3_text": 6,
    "gemma3n_text": 5,
    "gemma4_text": 6,
    "gpt_oss": 2,
    "llama4_text": 4,
    "olmo3": 4,
    "qwen3_next": 4,
    "qwen3_5_text": 4,
    "qwen3_5_moe_text": 4,
}

# The words that different authors have for the same.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = (
    "num_key_value_heads",
    "n_head_kv",
    "num_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HEAD_DIM = ("head_dim", "hidden_size_per_head", "kv_channels")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")

_MOST_LAYERS = 10_000  # beyond it, a number is garbage

# Pattern letters of Nemotron-H and the names in its newer `layers_block_type`.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_NOTHING_KEPT = frozenset({"mlp", "moe"})


def geometry(config: Mapping[str, Any], name: str = "") -> Geometry:
    """The geometry of the model that ``config`` describes.

    Args:
        config: the parsed ``config.json``; of a model of several kinds of input, its text part counts.
        name: what the model is called in reports; empty: what the configuration calls it.

    Raises:
        GeometryError: a field is missing or no number, or the model keeps something unknown.
    """
    text = _text_part(config)
    kinds = _kinds(text)
    kept = alike(_layers(text, kinds))
    if not kept:
        raise GeometryError("the configuration describes no layer that keeps anything")
    heads = text.number(_HEADS, default=0)
    return Geometry(
        name=name or str(config.get("_name_or_path") or config.get("model_type") or "model"),
        layers=kept,
        context=text.number(_CONTEXT, default=0) or None,
        query_heads=heads or None,
        weights=weights_of(text.fields, kinds),
    )


class _Fields:
    """A configuration's fields, checked as they are read."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    @property
    def type(self) -> str:
        return str(self.fields.get("model_type") or "")

    def has(self, *names: str) -> bool:
        return all(self.fields.get(name) is not None for name in names)

    def number(self, names: str | Sequence[str], default: int | None = None) -> int:
        """A whole number above 0 under the first of these names that is there."""
        names = (names,) if isinstance(names, str) else names
        for name in names:
            value = self.fields.get(name)
            if value is not None:
                return _whole(name, value)
        if default is None:
            raise GeometryError(f"the configuration has no {names[0]}")
        return default


def _whole(name: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 1:
        shown = json.dumps(value, ensure_ascii=False, default=str)
        raise GeometryError(f"{name} is {shown[:60]}, not a whole number above 0")
    return value


def _text_part(config: Mapping[str, Any]) -> _Fields:
    if not isinstance(config, Mapping):
        raise GeometryError("the configuration is no JSON object")
    for name in _NESTED:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            # Where a configuration stands inside another, what equals its class's default is left out.
            defaults = _class_defaults().get(str(inner.get("model_type") or ""), {})
            return _text_part({**defaults, **inner})
    return _Fields(config)


@cache
def _class_defaults() -> dict[str, dict[str, Any]]:
    text = files("kvagent.kvmemory").joinpath("class_defaults.json").read_text(encoding="utf-8")
    defaults: dict[str, dict[str, Any]] = json.loads(text)["model_types"]
    return defaults


def _layers(text: _Fields, kinds: list[str]) -> Iterator[Layer]:
    """What each layer keeps, from the first to the last."""
    if text.has("compress_ratios"):
        raise GeometryError(
            "the configuration has compress_ratios: a cache that compresses tokens is not known here"
        )
    blocks = text.get("block_configs")
    if isinstance(blocks, list) and blocks:
        for block in blocks:
            yield from _block(text, block)
        return
    shared = text.get("num_kv_shared_layers") or 0
    if shared:
        # The last layers read the keys and values of earlier ones.
        shared = _whole("num_kv_shared_layers", shared)
        kinds = kinds[: max(len(kinds) - shared, 0)]
    for index, kind in enumerate(kinds):
        yield from _kept(text, kind, index)


def _kinds(text: _Fields) -> list[str]:
    """Each layer's kind, in the words of ``layer_types``."""
    if isinstance(blocks := text.get("block_configs"), list):
        return ["block"] * len(blocks)
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        try:
            return [_LETTERS[letter] for letter in pattern]
        except KeyError as error:
            raise GeometryError(f"hybrid_override_pattern has the unknown letter {error}") from None
    named = text.get("layers_block_type") or text.get("layer_types")
    count = text.number(_LAYERS)
    if count > _MOST_LAYERS:
        raise GeometryError(f"num_hidden_layers is {count}, more than any model has")
    if isinstance(named, list) and named and all(isinstance(kind, str) for kind in named):
        # A list for more layers than there are was left over from a larger sibling.
        if len(named) < count:
            raise GeometryError(f"layer_types names {len(named)} of {count} layers")
        return named[:count]
    return [_kind(text, index) for index in range(count)]


def _kind(text: _Fields, index: int) -> str:
    """The kind of a layer in a configuration that has no list of them."""
    if isinstance(indices := text.get("attn_layer_indices"), list):  # Bamba
        return "attention" if index in indices else "mamba"
    if text.has("attn_layer_period"):  # Jamba
        place = index % text.number("attn_layer_period")
        return "attention" if place == text.get("attn_layer_offset") else "mamba"
    other = _other_kind(text)
    period = text.get("full_attention_interval") or text.get("sliding_window_pattern")
    period = period or text.get("_sliding_window_pattern") or _EVERY_NTH_IS_FULL.get(text.type)
    if isinstance(period, str):  # EXAONE-4: LLLG, a letter a layer
        return other if period[index % len(period)] == "L" else "full_attention"
    if period:
        last = (index + 1) % _whole("sliding_window_pattern", period) == 0
        return "full_attention" if last else other
    if other == "sliding_attention" and text.has("max_window_layers"):
        windowless = text.get("max_window_layers")
        if windowless and index < _whole("max_window_layers", windowless):
            return "full_attention"
    return other if other == "sliding_attention" else "full_attention"


def _other_kind(text: _Fields) -> str:
    """What the layers are that are not full attention, if there are such."""
    if text.has("linear_num_value_heads"):
        return "linear_attention"
    if text.has("attention_chunk_size"):
        return "chunked_attention"
    return "sliding_attention" if _window(text) else "full_attention"


def _window(text: _Fields) -> int | None:
    window = text.get("sliding_window")
    # Qwen's classes have a window that is off unless it is switched on.
    used = text.get("use_sliding_window")
    if not window or used is False or (used is None and text.type.startswith("qwen")):
        return None
    if isinstance(window, list):
        raise GeometryError("sliding_window is a list: windows that differ by layer are not known")
    return _whole("sliding_window", window)


def _kept(text: _Fields, kind: str, index: int) -> Iterator[Layer]:
    match kind:
        case "full_attention" | "attention" | "global" | "indexed_attention":
            yield from _attention(text, index, None)
        case "sliding_attention" | "local":
            # Without a window a layer of this kind sees everything.
            yield from _attention(text, index, _window(text))
        case "chunked_attention":
            yield from _attention(text, index, text.number("attention_chunk_size"), chunked=True)
        case "linear_attention" if text.has("linear_num_value_heads"):
            yield _gated_delta_net(text)
        case "mamba" | "mamba2" | "linear_attention":
            yield _mamba(text)
        case "hybrid":  # Falcon-H1: both in every layer
            yield from _attention(text, index, None)
            yield _mamba(text)
        case "conv":
            yield State(conv=text.number(_HIDDEN) * (text.number("conv_L_cache") - 1), recurrent=0)
        case _ if kind in _NOTHING_KEPT:
            return
        case _:
            raise GeometryError(f"layer {index} is of the unknown kind {kind!r}")


def _attention(
    text: _Fields, index: int, window: int | None, *, chunked: bool = False
) -> Iterator[Layer]:
    if text.has("kv_lora_rank"):
        yield _latent(text)
        if text.has("index_head_dim"):
            yield Indexer(text.number("index_head_dim"))
        return
    dim = _head_dim(text)
    heads = _kv_heads(text, index)
    if text.type == "gemma4_text" and window is None:
        dim = text.number("global_head_dim", default=512)
        if text.get("attention_k_eq_v"):
            heads = text.number("num_global_key_value_heads", default=heads)
    value_dim = text.number("v_head_dim", default=dim)
    yield Attention(heads, dim, value_dim, window, chunked)


def _head_dim(text: _Fields) -> int:
    dim = text.number(_HEAD_DIM, default=0)
    if dim:
        return dim
    hidden, heads = text.number(_HIDDEN), text.number(_HEADS)
    if hidden < heads:
        raise GeometryError(f"hidden_size {hidden} is less than num_attention_heads {heads}")
    return hidden // heads


def _kv_heads(text: _Fields, index: int) -> int:
    for name in _KV_HEADS:
        value = text.get(name)
        if isinstance(value, list):  # OpenELM: another number in each layer
            if index >= len(value):
                raise GeometryError(f"{name} names {len(value)} layers only")
            return _whole(name, value[index])
        if value is not None:
            return _whole(name, value)
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return 1
    return text.number(_HEADS)


def _latent(text: _Fields) -> Latent:
    rope = text.number("qk_rope_head_dim")
    expanded = None
    if text.has("qk_nope_head_dim", "v_head_dim"):
        key = text.number("qk_nope_head_dim") + rope
        expanded = Attention(text.number(_HEADS), key, text.number("v_head_dim"))
    return Latent(text.number("kv_lora_rank"), rope, expanded)


def _gated_delta_net(text: _Fields) -> State:
    keys = text.number("linear_num_key_heads") * text.number("linear_key_head_dim")
    value_heads, value_dim = (
        text.number("linear_num_value_heads"),
        text.number("linear_value_head_dim"),
    )
    return State(
        conv=(2 * keys + value_heads * value_dim) * (text.number("linear_conv_kernel_dim") - 1),
        recurrent=value_heads * value_dim * text.number("linear_key_head_dim"),
        recurrent_bytes=_recurrent_bytes(text),
    )


def _recurrent_bytes(text: _Fields) -> int | None:
    prescribed = text.get("mamba_ssm_dtype") or text.get("mamba_ssm_cache_dtype")
    if prescribed is None and text.type == "nemotron_h":
        return 4
    return {"float32": 4, "float16": 2, "bfloat16": 2}.get(str(prescribed))


def _mamba(text: _Fields) -> State:
    state = text.number(("mamba_d_state", "ssm_state_size", "state_size"))
    kernel = text.number(("mamba_d_conv", "conv_kernel", "conv_kernel_size"))
    heads = text.number(("mamba_n_heads", "mamba_num_heads"), default=0)
    if not heads:  # the first Mamba has no heads
        inner = text.number("mamba_expand") * text.number(_HIDDEN)
        return State(inner * (kernel - 1), inner * state, _recurrent_bytes(text))
    dim = text.get("mamba_d_head")
    if dim in {None, "auto"}:
        dim = text.number("mamba_head_dim", default=0)
        dim = dim or text.number("mamba_expand") * text.number(_HIDDEN) // heads
    inner = heads * _whole("mamba_d_head", dim)
    groups = text.number(("mamba_n_groups", "n_groups"), default=1)
    conv = (inner + 2 * groups * state) * (kernel - 1)
    return State(conv, inner * state, _recurrent_bytes(text))


def _block(text: _Fields, block: Any) -> Iterator[Layer]:
    """A layer of the models whose layers were pruned one by one (Nemotron)."""
    attention = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping):
        raise GeometryError("block_configs has a block without attention")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return
    group = _whole("n_heads_in_group", attention.get("n_heads_in_group"))
    dim = _head_dim(text)
    yield Attention(max(1, text.number(_HEADS) // group), dim, dim)
