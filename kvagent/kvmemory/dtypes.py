"""How many bytes does a number take in a KV cache?

Exact fractions, so nothing is rounded before the end. The names are the servers' own: vLLM's
``--kv-cache-dtype`` and llama.cpp's ``--cache-type-k`` and ``--cache-type-v``.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction

VLLM = "vLLM"
LLAMACPP = "llama.cpp"


class UnknownType(ValueError):
    """No KV cache has this data type; the message names those that there are."""


@dataclass(frozen=True, slots=True)
class KVType:
    """A data type of a KV cache."""

    name: str
    element: Fraction
    """Bytes of one number, with its share of what scales a block of them."""
    head: int = 0
    """Bytes of scales beside each head's key, and as many beside its value."""
    token: int | None = None
    """Bytes of a whole token in one layer: a packed form of latent attention, and of it alone."""
    servers: tuple[str, ...] = (VLLM, LLAMACPP)

    def vector(self, dim: int) -> Fraction:
        """Bytes of one head's key or value of ``dim`` numbers."""
        return self.element * dim + self.head


@dataclass(frozen=True, slots=True)
class KVTypes:
    """The types of keys and of values, which llama.cpp lets differ."""

    key: KVType
    value: KVType

    @property
    def name(self) -> str:
        """``q8_0``, or ``q8_0/q4_0`` where keys and values differ."""
        return self.key.name if self.key == self.value else f"{self.key.name}/{self.value.name}"

    @property
    def servers(self) -> tuple[str, ...]:
        """Those that can keep both so; only llama.cpp lets them differ."""
        if self.key == self.value:
            return self.key.servers
        both = LLAMACPP in self.key.servers and LLAMACPP in self.value.servers
        return (LLAMACPP,) if both else ()


def _ggml(name: str, block_bytes: int) -> KVType:
    # ggml quantises blocks of 32 numbers, the scales among the block's bytes.
    return KVType(name, Fraction(block_bytes, 32), servers=(LLAMACPP,))


def _vllm(name: str, element: Fraction, head: int = 0, token: int | None = None) -> KVType:
    return KVType(name, element, head, token, servers=(VLLM,))


_ONE, _HALF = Fraction(1), Fraction(1, 2)

TYPES = {
    kind.name: kind
    for kind in (
        KVType("f16", Fraction(2)),
        KVType("bf16", Fraction(2)),
        KVType("f32", Fraction(4)),
        _vllm("fp8", _ONE),
        _vllm("fp8_e4m3", _ONE),
        _vllm("fp8_e5m2", _ONE),
        _vllm("fp8_inc", _ONE),
        # 512 numbers of the latent in 8 bits, 4 scales of 4 bytes, 64 numbers of 2 bytes.
        _vllm("fp8_ds_mla", _ONE, token=656),
        _vllm("nvfp4_ds_mla", Fraction(9, 16), token=352),
        # 4 bits each, and one byte of scale for every 16.
        _vllm("nvfp4", Fraction(9, 16)),
        _vllm("nvfp4_4over6", Fraction(9, 16)),
        _vllm("fp8_per_token_head", _ONE, head=4),
        _vllm("int8_per_token_head", _ONE, head=4),
        _vllm("int4_per_token_head", _HALF, head=4),
        _ggml("q8_0", 34),
        _ggml("q5_1", 24),
        _ggml("q5_0", 22),
        _ggml("q4_1", 20),
        _ggml("q4_0", 18),
        _ggml("iq4_nl", 18),
    )
}

_ALIASES = {
    # What `auto` is: vLLM takes the model's own type, 16 bits also for models stored in 32.
    "auto": "f16",
    "float16": "f16",
    "fp16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "fp32": "f32",
    "int8": "int8_per_token_head",
    "int4": "int4_per_token_head",
}


def kv_types(name: str) -> KVTypes:
    """The types that ``name`` names: one for both, or the keys' and the values' with a slash.

    Raises:
        UnknownType: no server has such a type.
    """
    key, _, value = name.partition("/")
    types = KVTypes(kv_type(key), kv_type(value or key))
    if not types.servers:
        raise UnknownType(
            f"no server keeps keys in {types.key.name} and values in {types.value.name}"
        )
    return types


def kv_type(name: str) -> KVType:
    """The type of that name, in whatever case; ``UnknownType`` if there is none."""
    wanted = name.strip().lower()
    found = TYPES.get(_ALIASES.get(wanted, wanted))
    if found is not None:
        return found
    near = get_close_matches(wanted, [*TYPES, *_ALIASES], n=1)
    hint = f", did you mean {near[0]}?" if near else f": there are {', '.join(TYPES)}"
    raise UnknownType(f"no KV cache has the data type {name!r}{hint}")
