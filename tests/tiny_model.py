"""What is the smallest model that a real server takes for one?

A llama of two layers, a gemma3 of six with a sliding window, or a mamba of two without attention,
with random weights and SmolLM2's vocabulary. What a server caches depends on its rules and on token
ids, never on the weights, so a model that starts at once and prefills thousands of tokens a second
tells as much as a real one.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from kvagent.gguf import GGUF

_ALIGNMENT = 32
_F32, _F16 = 0, 1
_SMALL = ("ssm_conv1d.weight", "ssm_a")
"""What ggml computes in 32 bits only."""
_VOCABULARY = "tokenizer."
_TEMPLATE = "tokenizer.chat_template"


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's size; the KV cache's row is ``kv_heads * head`` numbers for K and as many for V."""

    architecture: str = "llama"
    layers: int = 2
    embedding: int = 64
    heads: int = 4
    kv_heads: int = 4
    head: int = 64
    context: int = 65_536
    window: int = 0
    """Of the sliding layers, in tokens; gemma3 only, where every sixth layer is a full one."""


LLAMA = Shape()
"""2,048 bytes of KV a token at 16 bit: one MiB holds some 500 tokens."""

SLIM = Shape(layers=1, embedding=32, heads=1, kv_heads=1, head=32)
"""For long prompts: much less to compute."""

GEMMA3 = Shape("gemma3", layers=6, heads=2, kv_heads=1, head=32, window=128)

MAMBA = Shape("mamba", heads=0, kv_heads=0, head=0)

STATE, KERNEL = 16, 4
"""Of a mamba: numbers of state a channel, and the width of its convolution."""


def write(path: Path, vocabulary: Path, shape: Shape = LLAMA) -> Path:
    """Write a model with the tokenizer of the GGUF file ``vocabulary``; returns ``path``.

    It carries no chat template: the server is given one, or falls back to ChatML.
    """
    tokenizer = {
        key: value
        for key, value in GGUF.read(vocabulary).metadata.items()
        if key.startswith(_VOCABULARY) and key != _TEMPLATE
    }
    tokens = len(tokenizer["tokenizer.ggml.tokens"])
    tensors = dict(_tensors(shape, tokens))
    path.write_bytes(_file({**_hyperparameters(shape, tokens), **tokenizer}, tensors))
    return path


def _hyperparameters(shape: Shape, tokens: int) -> Mapping[str, Any]:
    own = {
        "block_count": shape.layers,
        "context_length": shape.context,
        "embedding_length": shape.embedding,
        "feed_forward_length": shape.embedding,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head,
        "attention.value_length": shape.head,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": shape.head,
        "rope.freq_base": 10_000.0,
        "vocab_size": tokens,
    }
    if shape.architecture == "mamba":
        own |= {
            "ssm.conv_kernel": KERNEL,
            "ssm.inner_size": 2 * shape.embedding,
            "ssm.state_size": STATE,
            "ssm.time_step_rank": shape.embedding // 16,
        }
    if shape.window:
        own["attention.sliding_window"] = shape.window
    return {
        "general.architecture": shape.architecture,
        "general.name": "tiny",
        **{f"{shape.architecture}.{key}": value for key, value in own.items()},
    }


def _tensors(shape: Shape, tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, queries, rows = shape.embedding, shape.heads * shape.head, shape.kv_heads * shape.head
    yield "token_embd.weight", (width, tokens)
    yield "output_norm.weight", (width,)
    for layer in range(shape.layers):
        if shape.architecture == "mamba":
            yield from _mamba(f"blk.{layer}.", width)
            continue
        parts = {
            "attn_norm": (width,),
            "attn_q": (width, queries),
            "attn_k": (width, rows),
            "attn_v": (width, rows),
            "attn_output": (queries, width),
            "ffn_norm": (width,),
            "ffn_gate": (width, width),
            "ffn_up": (width, width),
            "ffn_down": (width, width),
        }
        if shape.architecture == "gemma3":
            parts |= {
                "attn_q_norm": (shape.head,),
                "attn_k_norm": (shape.head,),
                "post_attention_norm": (width,),
                "post_ffw_norm": (width,),
            }
        for name, size in parts.items():
            yield f"blk.{layer}.{name}.weight", size


def _mamba(layer: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    inner, rank = 2 * width, width // 16
    yield f"{layer}attn_norm.weight", (width,)
    yield f"{layer}ssm_in.weight", (width, 2 * inner)
    yield f"{layer}ssm_conv1d.weight", (KERNEL, inner)
    yield f"{layer}ssm_conv1d.bias", (inner,)
    yield f"{layer}ssm_x.weight", (inner, rank + 2 * STATE)
    yield f"{layer}ssm_dt.weight", (rank, inner)
    yield f"{layer}ssm_dt.bias", (inner,)
    yield f"{layer}ssm_a", (STATE, inner)
    yield f"{layer}ssm_d", (inner,)
    yield f"{layer}ssm_out.weight", (inner, width)


def _file(metadata: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]]) -> bytes:
    """Version 3 of ggml's ``docs/gguf.md``: header, metadata, where each tensor lies, the tensors."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    head += [_string(key) + _value(value) for key, value in metadata.items()]
    data = bytearray()
    draw = random.Random(7)
    for name, shape in tensors.items():
        kind = _F32 if len(shape) == 1 or name.endswith(_SMALL) else _F16
        head.append(_string(name))
        head.append(struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data)))
        data += _random(shape, draw) if kind == _F16 else _same(name, shape)
        data += bytes(-len(data) % _ALIGNMENT)
    start = b"".join(head)
    return start + bytes(-len(start) % _ALIGNMENT) + bytes(data)


def _same(name: str, shape: tuple[int, ...]) -> bytes:
    """Norms are ones; a state must fade, not grow."""
    return struct.pack("<f", -1.0 if name.endswith("ssm_a") else 1.0) * prod(shape)


def _random(shape: tuple[int, ...], draw: random.Random) -> bytes:
    numbers = bytearray(2 * prod(shape))
    numbers[0::2] = draw.randbytes(len(numbers) // 2)
    # The upper byte holds the sign, the exponent and two bits more: 2**-6 to 2**-4 either way.
    numbers[1::2] = draw.randbytes(len(numbers) // 2).translate(_UPPER)
    return bytes(numbers)


_UPPER = bytes((byte & 0x80) | (9 + (byte >> 6 & 1)) << 2 | byte & 3 for byte in range(256))


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, list):
        return struct.pack("<I", 9) + _array(value)
    kind, data = _scalar(value)
    return struct.pack("<I", kind) + data


def _array(values: Sequence[Any]) -> bytes:
    if isinstance(values[0], int):  # a token's type: signed, unlike a number that stands alone
        return struct.pack(f"<IQ{len(values)}i", 5, len(values), *values)
    return struct.pack("<IQ", 8, len(values)) + b"".join(map(_string, values))


def _scalar(value: Any) -> tuple[int, bytes]:
    """The value's type number and bytes; ``bool`` before ``int``, which it is too."""
    if isinstance(value, str):
        return 8, _string(value)
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    return 4, struct.pack("<I", value)
