"""How many bytes do a model's weights take?"""

from __future__ import annotations

from difflib import get_close_matches
from fractions import Fraction
from math import ceil

from kvagent.kvmemory.geometry import Weights

BITS = {
    "f32": Fraction(32),
    "bf16": Fraction(16),
    "f16": Fraction(16),
    "fp8": Fraction(8),
    "int8": Fraction(8),
    # 4 bits, and for every 128 of them a scale of 16 and a zero of 4.
    "int4": 4 + Fraction(20, 128),
    # 4 bits, and for every 32 of them a scale of 8.
    "mxfp4": 4 + Fraction(8, 32),
    "q8_0": Fraction(17, 2),
    "q6_k": Fraction(105, 16),
    "q4_0": Fraction(9, 2),
    # Mixtures of types, as in a Llama-3-8B of that name.
    "q5_k_m": Fraction(571, 100),
    "q4_k_m": Fraction(490, 100),
    "q3_k_m": Fraction(400, 100),
}
"""Bits of a parameter."""

_ALIASES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "fp16": "f16",
    "float32": "f32",
    "fp32": "f32",
    "awq": "int4",
    "gptq": "int4",
    "q4": "q4_k_m",
    "q8": "q8_0",
}


class UnknownWeights(ValueError):
    """No weights have this data type, or nothing says how many there are."""


def weights_type(name: str) -> str:
    """The type that ``name`` means, a key of `BITS`; ``UnknownWeights`` if there is none."""
    wanted = name.strip().lower()
    wanted = _ALIASES.get(wanted, wanted)
    if wanted in BITS:
        return wanted
    near = get_close_matches(wanted, [*BITS, *_ALIASES], n=1)
    hint = f", did you mean {near[0]}?" if near else f": there are {', '.join(BITS)}"
    raise UnknownWeights(f"weights are not kept in {name!r}{hint}")


def weight_bytes(weights: Weights, kind: str | None = None) -> int:
    """Bytes of all weights.

    Args:
        weights: the model's.
        kind: a key of `BITS`; None: as they lie on disk, else as published, else 16 bits.

    Raises:
        UnknownWeights: nothing says how many parameters there are.
    """
    if kind is None and weights.bytes is not None:
        return weights.bytes
    if weights.parameters is None:
        raise UnknownWeights("nothing says how many parameters the model has")
    kind = kind or weights.dtype or "bf16"
    return _bytes(weights.parameters, weights.expert_parameters, kind)


def read_bytes(weights: Weights, requests: int, kind: str | None = None) -> int:
    """Bytes of weights that are read to compute one token of each of so many requests.

    Of a mixture of experts, those that this many tokens choose if they choose at random.

    Raises:
        UnknownWeights: nothing says how many parameters there are.
    """
    active = weights.active_parameters or weights.parameters
    if active is None or weights.parameters is None:
        raise UnknownWeights("nothing says how many parameters the model has")
    chosen = min(Fraction(weights.experts_per_token, weights.experts), Fraction(1))
    common = active - int(weights.expert_parameters * chosen)
    experts = round(weights.expert_parameters * (1 - float(1 - chosen) ** requests))
    if kind is None and weights.bytes is not None:
        return ceil(Fraction(weights.bytes * (common + experts), weights.parameters))
    return _bytes(common + experts, experts, kind or weights.dtype or "bf16")


def _bytes(parameters: int, experts: int, kind: str) -> int:
    if kind == "mxfp4" and experts:
        # Only experts were ever published in it; the rest stayed in 16 bits.
        return ceil((experts * BITS[kind] + (parameters - experts) * BITS["bf16"]) / 8)
    return ceil(parameters * BITS[kind] / 8)
