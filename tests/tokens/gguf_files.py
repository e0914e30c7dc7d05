"""How is a GGUF file written, with any metadata, and a model in it so small that a server starts at once?"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ALIGNMENT = 32
_F32 = 0


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Sequence[int]] | None = None
) -> Path:
    """Write `metadata` and `tensors` (name → shape, the innermost first; F32, all zeros) to `path`."""
    tensors = tensors or {}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += _string(key) + _value(value)
    offset = 0
    for name, shape in tensors.items():
        head += _string(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", _F32, offset)
        offset += _aligned(_size(shape))
    with path.open("wb") as file:
        file.write(head)
        file.truncate(_aligned(len(head)) + offset)  # the rest reads as zeros
    return path


def tiny_llama(path: Path, tokenizer: Mapping[str, Any]) -> Path:
    """A Llama of one layer and 32 dimensions with this tokenizer's metadata."""
    width, words = 32, len(tokenizer["tokenizer.ggml.tokens"])
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.context_length": 4096,
        "llama.embedding_length": width,
        "llama.feed_forward_length": width,
        "llama.attention.head_count": 1,
        "llama.attention.head_count_kv": 1,
        "llama.rope.dimension_count": width,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": words,
        **tokenizer,
    }
    square = (width, width)
    tensors: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (width, words),
        "output_norm.weight": (width,),
        "blk.0.attn_norm.weight": (width,),
        "blk.0.ffn_norm.weight": (width,),
    }
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensors[f"blk.0.{part}.weight"] = square
    return write_gguf(path, metadata, tensors)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _size(shape: Sequence[int]) -> int:
    size = 4
    for each in shape:
        size *= each
    return size


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    kind = 8 if isinstance(value[0], str) else 6 if isinstance(value[0], float) else 5
    head = struct.pack("<IIQ", 9, kind, len(value))
    if kind == 8:
        return head + b"".join(map(_string, value))
    return head + struct.pack(f"<{len(value)}{'f' if kind == 6 else 'i'}", *value)
