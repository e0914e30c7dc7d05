"""How is a figure checked by hand?

The same arithmetic as in `memory`, written out with the model's numbers in it.
"""

from __future__ import annotations

from fractions import Fraction

from kvagent.kvmemory.dtypes import KVType
from kvagent.kvmemory.geometry import Attention, Indexer, Latent, Layers, State
from kvagent.kvmemory.memory import Storage, heads_of_rank


def formula(layers: Layers, storage: Storage) -> str:
    """The bytes of a token in these layers, ``32 layers × 8 heads × (128 + 128) × 2 B``.

    Of layers of constant size, the bytes of a sequence.
    """
    return f"{_many(layers.count, 'layer')} × {_one(layers, storage)} B"


def _one(layers: Layers, storage: Storage) -> str:
    layer, key, value = layers.layer, storage.types.key, storage.types.value
    match layer:
        case Attention():
            heads = heads_of_rank(layer.kv_heads, storage.tp)
            if key == value and not key.head:
                sides = f"({layer.key_dim:,} + {layer.value_dim:,}) × {_number(key.element)}"
            else:
                sides = f"({_side(layer.key_dim, key)} + {_side(layer.value_dim, value)})"
            return f"{_many(heads, 'head')} × {sides}"
        case Latent() if key.token is not None:
            return f"{key.token:,}"
        case Latent() if key.head:
            numbers = f"({layer.rank:,} + {layer.rope_dim:,})"
            return f"({numbers} × {_number(key.element)} + {2 * key.head})"
        case Latent():
            return f"({layer.rank:,} + {layer.rope_dim:,}) × {_number(key.element)}"
        case Indexer():
            return f"({layer.dim:,} + {layer.bytes - layer.dim})"
        case State():
            recurrent = layer.recurrent_bytes or storage.state_bytes or 4
            whole = f"({layer.conv:,} × {storage.conv_bytes} + {layer.recurrent:,} × {recurrent})"
            return whole if storage.tp == 1 else f"{whole} / {storage.tp}"


def _side(dim: int, kind: KVType) -> str:
    scales = f" + {kind.head}" if kind.head else ""
    return f"{dim:,} × {_number(kind.element)}{scales}"


def _number(value: Fraction) -> str:
    """Every such fraction has a power of two below its line, so its decimals end."""
    return f"{float(value):g}"


def _many(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:,} {what}s"
