"""What does a GGUF file's metadata say about a model's geometry?

Where the file is silent, what llama.cpp assumes for the architecture counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Protocol

from kvagent.kvmemory.geometry import (
    Attention,
    Geometry,
    GeometryError,
    Latent,
    Layer,
    State,
    Weights,
    alike,
)


class Tensor(Protocol):
    """What is wanted of a tensor: its name, how many numbers it holds, and ggml's type number."""

    @property
    def name(self) -> str: ...
    @property
    def elements(self) -> int: ...
    @property
    def type(self) -> int: ...


# Architectures where every n-th layer sees everything and the others have a window.
_EVERY_NTH_IS_FULL = {
    "cohere2": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "llama4": 4,
    "olmo2": 4,
}
# llama.cpp has this length of Llama 4's chunks in its source and not in the file.
_CHUNK = 8192
# Architectures whose window llama.cpp reads and does not use: all layers keep everything.
_WINDOW_UNUSED = frozenset({"llama", "mistral3", "phi3", "qwen2", "qwen2moe", "qwen3", "qwen3moe"})

_MOST_LAYERS = 10_000  # beyond it, a number is garbage

# ggml's types by number: bytes of a block and numbers in it.
_BLOCKS = {
    0: (4, 1),  # F32
    1: (2, 1),  # F16
    2: (18, 32),  # Q4_0
    3: (20, 32),  # Q4_1
    6: (22, 32),  # Q5_0
    7: (24, 32),  # Q5_1
    8: (34, 32),  # Q8_0
    9: (36, 32),  # Q8_1
    10: (84, 256),  # Q2_K
    11: (110, 256),  # Q3_K
    12: (144, 256),  # Q4_K
    13: (176, 256),  # Q5_K
    14: (210, 256),  # Q6_K
    15: (292, 256),  # Q8_K
    16: (66, 256),  # IQ2_XXS
    17: (74, 256),  # IQ2_XS
    18: (98, 256),  # IQ3_XXS
    19: (50, 256),  # IQ1_S
    20: (18, 32),  # IQ4_NL
    21: (110, 256),  # IQ3_S
    22: (82, 256),  # IQ2_S
    23: (136, 256),  # IQ4_XS
    24: (1, 1),  # I8
    25: (2, 1),  # I16
    26: (4, 1),  # I32
    27: (8, 1),  # I64
    28: (8, 1),  # F64
    29: (56, 256),  # IQ1_M
    30: (2, 1),  # BF16
    34: (54, 256),  # TQ1_0
    35: (66, 256),  # TQ2_0
    39: (17, 32),  # MXFP4
}


def geometry(
    metadata: Mapping[str, Any], tensors: Iterable[Tensor] = (), name: str = ""
) -> Geometry:
    """The geometry of the model in a GGUF file.

    Args:
        metadata: the file's keys and values, ``general.architecture`` among them.
        tensors: the file's tensors, for the size of the weights; without them it is not known.
        name: what the model is called in reports; empty: the file's ``general.name``.

    Raises:
        GeometryError: a key is missing or no number.
    """
    keys = _Keys(metadata)
    kept = alike(_layers(keys))
    if not kept:
        raise GeometryError(
            f"the file describes no layer of {keys.architecture} that keeps anything"
        )
    return Geometry(
        name=name or str(metadata.get("general.name") or keys.architecture),
        layers=kept,
        context=keys.number("context_length", default=0) or None,
        query_heads=max(keys.numbers("attention.head_count", 1, default=0)) or None,
        weights=_weights(keys, tuple(tensors)),
    )


class _Keys:
    """The architecture's own keys, checked as they are read."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self._metadata = metadata
        architecture = metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise GeometryError("the file does not name its architecture")
        self.architecture = architecture

    def get(self, key: str) -> Any:
        return self._metadata.get(f"{self.architecture}.{key}")

    def number(self, key: str, default: int | None = None) -> int:
        value = self.get(key)
        if value is None and default is not None:
            return default
        return self._whole(key, value)

    def numbers(self, key: str, count: int, default: int | None = None) -> list[int]:
        """One number a layer, also where the file has one for all."""
        value = self.get(key)
        if not isinstance(value, list | tuple):
            return [self.number(key, default)] * count
        if len(value) < count:
            raise GeometryError(f"{self.architecture}.{key} names {len(value)} of {count} layers")
        return [self._whole(key, item) for item in value]

    def _whole(self, key: str, value: Any) -> int:
        if value is None:
            raise GeometryError(f"the file has no {self.architecture}.{key}")
        if type(value) is not int or value < 0:
            raise GeometryError(
                f"{self.architecture}.{key} is {str(value)[:40]!r}, not a whole number"
            )
        return value


def _layers(keys: _Keys) -> Iterator[Layer]:
    """What each layer keeps, from the first to the last."""
    count = keys.number("block_count")
    # The last blocks may be heads that predict further tokens; a server without speculation has no KV for them.
    count -= keys.number("nextn_predict_layers", default=0)
    if not 1 <= count <= _MOST_LAYERS:
        raise GeometryError(f"{keys.architecture}.block_count leaves {count} layers")
    if keys.get("wkv.head_size") is not None or keys.get("attention.compress_ratios") is not None:
        raise GeometryError(f"what {keys.architecture} keeps is not known here")
    heads = keys.numbers("attention.head_count", count)
    kv_heads = keys.numbers("attention.head_count_kv", count, default=heads[0])
    if keys.get("attention.head_count_kv") is None:
        kv_heads = heads
    recurrent = _recurrent(keys, kv_heads)
    windows = _windows(keys, count)
    with_kv = count - keys.number("attention.shared_kv_layers", default=0)
    for index in range(count):
        if recurrent[index] or _both(keys):
            yield _state(keys)
        if kv_heads[index] and not recurrent[index] and index < with_kv:
            yield _attention(keys, kv_heads[index], heads[index], windows[index])


def _both(keys: _Keys) -> bool:
    return keys.architecture == "falcon-h1"


def _recurrent(keys: _Keys, kv_heads: list[int]) -> list[bool]:
    """Which layers keep a state instead of keys and values."""
    if keys.get("ssm.conv_kernel") is None and keys.get("shortconv.l_cache") is None:
        return [False] * len(kv_heads)
    said = keys.get("attention.recurrent_layers")
    if isinstance(said, list | tuple) and len(said) >= len(kv_heads):
        return [bool(layer) for layer in said]
    if _both(keys):
        return [False] * len(kv_heads)
    if 0 in kv_heads:
        # Of a mixture of three kinds the file does not say which layers keep neither.
        plain = keys.get("feed_forward_length")
        widths = plain if isinstance(plain, list | tuple) else [0] * len(kv_heads)
        return (
            [not heads and not width for heads, width in zip(kv_heads, widths, strict=False)]
            if (keys.architecture.startswith("nemotron_h"))
            else [not heads for heads in kv_heads]
        )
    interval = keys.number("full_attention_interval", default=4)
    return [(index + 1) % interval != 0 for index in range(len(kv_heads))]


def _windows(keys: _Keys, count: int) -> list[int | None]:
    """How far back each layer sees, None for everything."""
    length = keys.number("attention.sliding_window", default=0)
    if keys.architecture == "llama4":
        length = length or _CHUNK
    if not length:
        return [None] * count
    pattern = keys.get("attention.sliding_window_pattern")
    if isinstance(pattern, list | tuple):
        if len(pattern) < count:
            raise GeometryError(
                f"{keys.architecture}.attention.sliding_window_pattern names "
                f"{len(pattern)} of {count} layers"
            )
        return [length if windowed else None for windowed in pattern[:count]]
    if keys.architecture in _WINDOW_UNUSED:
        return [None] * count
    every = keys.number(
        "attention.sliding_window_pattern", default=_EVERY_NTH_IS_FULL.get(keys.architecture, 0)
    )
    if not every:
        raise GeometryError(
            f"{keys.architecture} has a sliding window, but not which of its layers have it"
        )
    return [None if (index + 1) % every == 0 else length for index in range(count)]


def _attention(keys: _Keys, kv_heads: int, heads: int, window: int | None) -> Layer:
    rank = keys.number("attention.kv_lora_rank", default=0)
    if rank:
        rope = keys.number("rope.dimension_count")
        # Files of before the latent form was kept have the full sizes under the plain names.
        latent = keys.get("attention.key_length_mla") is not None
        suffix = "_mla" if latent else ""
        expanded = Attention(
            heads,
            keys.number(f"attention.key_length{suffix}"),
            keys.number(f"attention.value_length{suffix}"),
        )
        return Latent(rank, rope, expanded) if latent else expanded
    dim = 0
    if keys.get("attention.key_length") is None or keys.get("attention.value_length") is None:
        dim = keys.number("embedding_length") // max(heads, 1)
    key = keys.number("attention.key_length", default=dim)
    value = keys.number("attention.value_length", default=dim)
    if window is not None:
        key = keys.number("attention.key_length_swa", default=key)
        value = keys.number("attention.value_length_swa", default=value)
    return Attention(
        kv_heads, key, value, window, chunked=keys.architecture == "llama4" and window is not None
    )


def _state(keys: _Keys) -> State:
    if keys.get("shortconv.l_cache") is not None:
        conv = keys.number("embedding_length") * max(keys.number("shortconv.l_cache") - 1, 0)
        return State(conv=conv, recurrent=0)
    inner, state = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    groups = keys.number("ssm.group_count", default=0)
    tail = max(keys.number("ssm.conv_kernel") - 1, 0)
    return State(conv=tail * (inner + 2 * groups * state), recurrent=state * inner)


def _weights(keys: _Keys, tensors: tuple[Tensor, ...]) -> Weights:
    experts = max(keys.numbers("expert_count", 1, default=0)) or 1
    chosen = max(keys.numbers("expert_used_count", 1, default=0)) or 1
    if not tensors:
        return Weights(experts=experts, experts_per_token=min(chosen, experts))
    total = sum(tensor.elements for tensor in tensors)
    # Each token passes through a few of the experts, and its row of the embedding.
    expert = sum(tensor.elements for tensor in tensors if "_exps." in tensor.name)
    embedding = sum(tensor.elements for tensor in tensors if tensor.name == "token_embd.weight")
    has_output = any(tensor.name == "output.weight" for tensor in tensors)
    active = total - expert + expert * chosen // experts - (embedding if has_output else 0)
    return Weights(total, active, expert, experts, chosen, _bytes(tensors))


def _bytes(tensors: Iterable[Tensor]) -> int | None:
    total = Fraction(0)
    for tensor in tensors:
        block = _BLOCKS.get(tensor.type)
        if block is None:
            return None
        size, numbers = block
        total += Fraction(tensor.elements * size, numbers)
    return int(total)
