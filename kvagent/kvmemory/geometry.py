"""What does a model keep for each token and for each sequence, layer by layer?

Numbers of a model alone: no server, no data type, no context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


class GeometryError(ValueError):
    """A model's description cannot be read; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Attention:
    """A layer that keeps a key and a value of each token for each KV head.

    MHA has as many KV heads as query heads, GQA fewer, MQA one.
    """

    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    """How many tokens back the layer looks; None is all of them."""
    chunked: bool = False
    """The window does not slide: it begins anew at every multiple of its length."""

    @property
    def elements(self) -> int:
        """Numbers kept for one token."""
        return self.kv_heads * (self.key_dim + self.value_dim)


@dataclass(frozen=True, slots=True)
class Latent:
    """A layer of multi-head latent attention: one vector a token, from which all heads' keys and
    values are made, and the part of the key that carries the position."""

    rank: int
    rope_dim: int
    expanded: Attention | None = None
    """The keys and values in full, which a server keeps that does not know the latent form."""

    @property
    def elements(self) -> int:
        """Numbers kept for one token."""
        return self.rank + self.rope_dim


@dataclass(frozen=True, slots=True)
class Indexer:
    """What a sparse attention layer keeps besides, to choose tokens by: a key in 8 bits."""

    dim: int

    @property
    def elements(self) -> int:
        """Numbers kept for one token."""
        return self.dim

    @property
    def bytes(self) -> int:
        """Bytes for one token: the key, and a 4-byte scale for every 128 of its numbers."""
        return self.dim + self.dim // 128 * 4


@dataclass(frozen=True, slots=True)
class State:
    """A linear-attention, state-space or short-convolution layer: the same for any length."""

    conv: int
    """Numbers of the convolution's tail, kept in the model's own data type."""
    recurrent: int
    """Numbers of the recurrent matrix."""
    recurrent_bytes: int | None = None
    """Bytes of each of those, where the model prescribes it; None leaves it to the server."""

    @property
    def elements(self) -> int:
        """Numbers kept for one sequence."""
        return self.conv + self.recurrent


Layer = Attention | Latent | Indexer | State


@dataclass(frozen=True, slots=True)
class Layers:
    """``count`` layers that are alike."""

    count: int
    layer: Layer


@dataclass(frozen=True, slots=True)
class Weights:
    """How large a model's weights are, where that is known."""

    parameters: int | None = None
    active_parameters: int | None = None
    """What one token is multiplied with: fewer than all in a mixture of experts."""
    expert_parameters: int = 0
    """Those of all experts together, of which a token passes through a few."""
    experts: int = 1
    experts_per_token: int = 1
    bytes: int | None = None
    """As they lie on disk; None: it follows from the parameters and a data type."""
    dtype: str | None = None
    """What they were published in, where that is not 16 bits: a name of `weights`."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A model's layers by kind, and what else memory and speed depend on."""

    name: str
    layers: tuple[Layers, ...]
    context: int | None = None
    """The longest sequence the model was made for, in tokens."""
    query_heads: int | None = None
    weights: Weights = Weights()

    def is_windowed(self, layer: Layer) -> bool:
        """Whether the layer forgets: a window as long as the longest sequence is none."""
        window = getattr(layer, "window", None)
        return window is not None and (self.context is None or window < self.context)

    @property
    def windows(self) -> tuple[int, ...]:
        """The lengths of its windows, in ascending order; none where all layers see everything."""
        return tuple(
            sorted(
                {
                    layers.layer.window
                    for layers in self.layers
                    if isinstance(layers.layer, Attention)
                    and layers.layer.window is not None
                    and self.is_windowed(layers.layer)
                }
            )
        )


def alike(layers: Iterable[Layer]) -> tuple[Layers, ...]:
    """Equal layers together, in the order of their first; without those that keep nothing."""
    kept = Counter(layer for layer in layers if layer.elements > 0)
    return tuple(Layers(count, layer) for layer, count in kept.items())
