"""What does vLLM reserve of a KV space, and how many tokens does it say that there are?

As in its ``v1/core/kv_cache_utils.py`` (0.32). Layers that keep the same form a group, every group
has blocks of its own in a request, and all blocks are of one size: so a block of a model with
windows is not that of all its layers, and its tokens depend on the longest request.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from kvagent.kvmemory.geometry import Attention, Geometry, Latent, Layer, State
from kvagent.kvmemory.memory import Storage, state_bytes, token_bytes

BLOCK = 16
"""Tokens of a block on a GPU; hybrid models get larger ones by themselves."""

CPU_BLOCK = 128
"""Tokens of a block on a CPU."""

CPU_IN_FLIGHT = 2048
"""Tokens of one step on a CPU, where one step is computed at a time."""

_KERNEL_BLOCK = 16  # what an attention kernel's block is a multiple of
_LATENT_KERNEL_BLOCK = 128


def cpu_block(geometry: Geometry) -> int:
    """Tokens of a block on a CPU, where latent attention is computed in blocks of 16 alone."""
    latent = any(isinstance(layers.layer, Latent) for layers in geometry.layers)
    return BLOCK if latent else CPU_BLOCK


def takes_ranks(geometry: Geometry, tp: int) -> bool:
    """Whether vLLM starts on so many ranks: they have equally many heads, or whole copies of one."""
    if (geometry.query_heads or tp) % tp:
        return False
    heads = [
        group.layer.kv_heads for group in geometry.layers if isinstance(group.layer, Attention)
    ]
    return all(each % tp == 0 or tp % each == 0 for each in heads)


def in_flight_tokens(gpu_bytes: int, name: str = "") -> int:
    """Tokens in the two steps that vLLM has in flight on a GPU, by its default batch."""
    gib = gpu_bytes / 2**30
    if gib >= 160:
        return 2 * 16_384
    return 2 * (8192 if gib >= 70 and "a100" not in name.lower() else 2048)


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share their blocks in a request."""

    layers: int
    block_size: int
    """Tokens of a block here; the pages of all groups are equally large, not equally long."""
    request_blocks: int
    """Blocks of this group that the longest request takes."""
    grows: bool
    """Whether its layers see everything, so that a request takes more the longer it is."""
    window: int | None = None
    """How many tokens its layers see, where they do not see everything."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How vLLM cuts a model's KV into blocks, on one rank."""

    groups: tuple[Group, ...]
    block_bytes: int
    """Bytes of one block, which any group can use."""
    context: int
    """The longest request, ``--max-model-len``, in tokens."""

    @property
    def block_size(self) -> int:
        """Tokens of a block of the first group, the block size that vLLM reports."""
        return self.groups[0].block_size

    @property
    def request_blocks(self) -> int:
        """Blocks of the longest request, over all groups."""
        return sum(group.request_blocks for group in self.groups)

    @property
    def request_bytes(self) -> int:
        """Bytes of the longest request."""
        return self.request_blocks * self.block_bytes

    def space_for(self, requests: int) -> int:
        """Bytes in which so many of the longest requests fit at once.

        One block is never used: vLLM keeps it to stand for what has left a window.
        """
        return (self.request_blocks * requests + 1) * self.block_bytes

    def pool(self, space_bytes: int) -> Pool:
        """The pool that vLLM makes of so many bytes."""
        return Pool(self, space_bytes // self.block_bytes)


@dataclass(frozen=True, slots=True)
class Pool:
    """A KV space in blocks."""

    of: Blocks
    blocks: int

    @property
    def concurrency(self) -> float:
        """How many of the longest requests it holds, as vLLM logs it."""
        return self.blocks / self.of.request_blocks

    @property
    def tokens(self) -> int:
        """vLLM's "KV cache size: N tokens"."""
        # In floating point, as vLLM does it: so the last digit is the same.
        return int(self.concurrency * self.of.context)


def tokens_in(
    geometry: Geometry,
    space_bytes: int,
    context: int,
    storage: Storage,
    *,
    block_size: int = BLOCK,
    in_flight: int = CPU_IN_FLIGHT,
) -> int:
    """vLLM's "KV cache size: N tokens" for a KV space of so many bytes on each rank.

    Args:
        geometry: the model.
        space_bytes: the KV space of one rank.
        context: ``--max-model-len``.
        storage: data types and ranks.
        block_size: ``--block-size``.
        in_flight: tokens of all steps in flight; it matters to models with windows.
    """
    blocks = blocks_of(geometry, context, storage, block_size=block_size, in_flight=in_flight)
    return blocks.pool(space_bytes).tokens


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers of one form, before they are cut into groups."""

    layers: int
    page: Fraction
    """Bytes of one block in one layer."""
    block_size: int
    window: int | None
    state: bool = False

    def request_blocks(self, context: int, in_flight: int) -> int:
        if self.state:
            # With prefix caching: the state that is computed on, and the one that was saved last.
            return 2
        if self.window is None:
            return _ceil_div(context, self.block_size)
        # A window may begin in the middle of a block, hence one more.
        return _ceil_div(min(self.window - 1 + in_flight, context), self.block_size) + 1


def blocks_of(
    geometry: Geometry,
    context: int,
    storage: Storage,
    *,
    block_size: int = BLOCK,
    in_flight: int = CPU_IN_FLIGHT,
) -> Blocks:
    """How vLLM cuts the model's KV into blocks; the arguments are those of `tokens_in`."""
    if storage.state_bytes is None:
        storage = replace(storage, state_bytes=storage.conv_bytes)
    attention = [
        (group.count, _whole_unless_sliding(group.layer))
        for group in geometry.layers
        if not isinstance(group.layer, State)
    ]
    states = [
        (group.count, state_bytes(group.layer, storage))
        for group in geometry.layers
        if isinstance(group.layer, State)
    ]
    if states and attention:
        block_size = _block_for_states(attention, states, storage, block_size)
    buckets = _buckets(attention, storage, block_size)
    buckets += [_Bucket(count, page, block_size, None, state=True) for count, page in states]
    if len(buckets) > 1:
        buckets = _of_one_page(buckets)
    return _grouped(buckets, context, in_flight)


def _whole_unless_sliding(layer: Layer) -> Layer:
    # vLLM allocates chunked attention like full attention unless told otherwise.
    if isinstance(layer, Attention) and layer.chunked:
        return replace(layer, window=None, chunked=False)
    return layer


def _buckets(
    attention: Iterable[tuple[int, Layer]], storage: Storage, block_size: int
) -> list[_Bucket]:
    """Layers that see everything are one bucket whatever their sizes, if there are no others."""
    layers = list(attention)
    windows = {getattr(layer, "window", None) for _, layer in layers}
    if len(windows) == 1:
        # One kind of layer: a block spans them all.
        page = sum((count * token_bytes(layer, storage) for count, layer in layers), Fraction(0))
        count = sum(count for count, _ in layers)
        return [_Bucket(count, page * block_size / count, block_size, windows.pop())]
    found: dict[tuple[Fraction, int | None], int] = {}
    for count, layer in layers:
        form = (token_bytes(layer, storage), getattr(layer, "window", None))
        found[form] = found.get(form, 0) + count
    return [
        _Bucket(count, size * block_size, block_size, window)
        for (size, window), count in found.items()
    ]


def _block_for_states(
    attention: list[tuple[int, Layer]],
    states: list[tuple[int, Fraction]],
    storage: Storage,
    block_size: int,
) -> int:
    """Tokens of a block that is at least as large as a state."""
    token = max(token_bytes(layer, storage) for _, layer in attention)
    latent = any(not isinstance(layer, Attention) for _, layer in attention)
    unit = max(_LATENT_KERNEL_BLOCK if latent else _KERNEL_BLOCK, block_size)
    largest = max(page for _, page in states)
    return max(block_size, unit * ceil(largest / (unit * token)))


def _of_one_page(buckets: list[_Bucket]) -> list[_Bucket]:
    """Pages made equally large: with more tokens in a block where that comes out even, else padded."""
    largest = max(bucket.page for bucket in buckets)
    unified = []
    for bucket in buckets:
        ratio = largest / bucket.page
        if ratio.denominator == 1 and not bucket.state:
            bucket = replace(bucket, block_size=bucket.block_size * ratio.numerator)
        unified.append(replace(bucket, page=largest))
    return unified


def _grouped(buckets: list[_Bucket], context: int, in_flight: int) -> Blocks:
    """Buckets cut into groups of about as many layers as the smallest has."""
    fewest, most = (
        min(bucket.layers for bucket in buckets),
        max(bucket.layers for bucket in buckets),
    )
    size = most if most < fewest * 1.5 else fewest
    groups: list[Group] = []
    block_bytes = Fraction(0)
    for bucket in buckets:
        count = _ceil_div(bucket.layers, size)
        blocks = bucket.request_blocks(context, in_flight)
        grows = bucket.window is None and not bucket.state
        layers = _ceil_div(bucket.layers, count)
        groups += [Group(layers, bucket.block_size, blocks, grows, bucket.window)] * count
        block_bytes = max(block_bytes, layers * bucket.page)
    return Blocks(tuple(groups), ceil(block_bytes), context)


def _ceil_div(value: int, by: int) -> int:
    return -(-value // by)
