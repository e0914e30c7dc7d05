"""How many bytes of KV does a token, a request, a number of requests take?

What a sequence needs, before a server rounds it up: `vllm` and `llamacpp` say what they reserve.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from kvagent.kvmemory.dtypes import KVType, KVTypes, UnknownType, kv_types
from kvagent.kvmemory.geometry import Attention, Geometry, Indexer, Latent, Layer, State


@dataclass(frozen=True, slots=True)
class Storage:
    """How a server keeps KV: the data types, and over how many GPUs the heads are spread."""

    types: KVTypes
    tp: int = 1
    """Ranks of tensor parallelism; every figure is one rank's."""
    state_bytes: int | None = None
    """Bytes of a number in a recurrent matrix where the model does not prescribe it; None: 4, except
    where vLLM is asked, which takes the model's own type then."""
    conv_bytes: int = 2
    """Bytes of a number in a convolution's tail, which has the model's own type."""

    @classmethod
    def of(cls, name: str = "f16", tp: int = 1) -> Storage:
        """From a data type's name; ``UnknownType`` if there is none."""
        return cls(kv_types(name), tp)


def check(geometry: Geometry, types: KVTypes) -> None:
    """Refuse, with ``UnknownType``, a data type that this model's layers cannot be kept in."""
    latent = any(isinstance(group.layer, Latent) for group in geometry.layers)
    if types.key.token is not None and not latent:
        raise UnknownType(
            f"{types.name} packs latent attention, which {geometry.name} does not have"
        )


def token_bytes(layer: Layer, storage: Storage) -> Fraction:
    """What one rank keeps of one token in one layer, windows aside; nothing in a state."""
    match layer:
        case Attention():
            key, value = storage.types.key, storage.types.value
            side = key.vector(layer.key_dim) + value.vector(layer.value_dim)
            return heads_of_rank(layer.kv_heads, storage.tp) * side
        case Latent():
            return _latent_bytes(layer, storage.types.key)
        case Indexer():
            return Fraction(layer.bytes)
        case State():
            return Fraction(0)


def heads_of_rank(kv_heads: int, tp: int) -> int:
    """KV heads on one rank: they are divided, but no rank goes without one."""
    return max(1, -(-kv_heads // tp))


def _latent_bytes(layer: Latent, kind: KVType) -> Fraction:
    # Every rank has the whole latent: there is nothing to divide. Scales come in pairs as if there
    # were a value beside the key.
    if kind.token is not None:
        return Fraction(kind.token)
    return kind.element * layer.elements + 2 * kind.head


def state_bytes(layer: State, storage: Storage) -> Fraction:
    """What one rank keeps of one sequence in one layer of constant size."""
    recurrent = layer.recurrent * (layer.recurrent_bytes or storage.state_bytes or 4)
    return Fraction(layer.conv * storage.conv_bytes + recurrent, storage.tp)


def sequence_bytes(layer: Layer, tokens: int, storage: Storage) -> Fraction:
    """What one rank keeps of a sequence of ``tokens`` in one layer."""
    if isinstance(layer, State):
        return state_bytes(layer, storage)
    if isinstance(layer, Attention) and layer.window is not None:
        tokens = min(tokens, layer.window)
    return tokens * token_bytes(layer, storage)


def growth_bytes(geometry: Geometry, storage: Storage) -> int:
    """Bytes by which a sequence grows with each token, once its windows are full."""
    return ceil(
        sum(
            group.count * token_bytes(group.layer, storage)
            for group in geometry.layers
            if not geometry.is_windowed(group.layer)
        )
    )


def unwindowed_bytes(geometry: Geometry, storage: Storage) -> int:
    """Bytes of a token if no layer had a window: what a server without windows would keep."""
    return ceil(sum(group.count * token_bytes(group.layer, storage) for group in geometry.layers))


def expanded_bytes(geometry: Geometry, storage: Storage) -> int | None:
    """Bytes of a token if latent attention were kept as full keys and values.

    None where there is no latent attention, its heads are not known, or the type is one of its forms.
    """
    if storage.types.key.token is not None:
        return None
    total = Fraction(0)
    latent = False
    for group in geometry.layers:
        layer = group.layer
        if isinstance(layer, Latent):
            if layer.expanded is None:
                return None
            layer, latent = layer.expanded, True
        total += group.count * token_bytes(layer, storage)
    return ceil(total) if latent else None


def fixed_bytes(geometry: Geometry, storage: Storage) -> int:
    """The most that a sequence takes however long it is: full windows, and states."""
    total = Fraction(0)
    for group in geometry.layers:
        layer = group.layer
        if isinstance(layer, State):
            total += group.count * state_bytes(layer, storage)
        elif isinstance(layer, Attention) and layer.window and geometry.is_windowed(layer):
            total += group.count * layer.window * token_bytes(layer, storage)
    return ceil(total)


def request_bytes(geometry: Geometry, tokens: int, storage: Storage) -> int:
    """What one rank keeps of one sequence of ``tokens``."""
    return ceil(
        sum(group.count * sequence_bytes(group.layer, tokens, storage) for group in geometry.layers)
    )
