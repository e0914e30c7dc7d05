"""Models that do not exist, of every kind of layer."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from kvagent.kvmemory.dtypes import TYPES
from kvagent.kvmemory.geometry import (
    Attention,
    Geometry,
    Indexer,
    Latent,
    Layers,
    State,
    Weights,
)
from kvagent.kvmemory.memory import Storage

rule = settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])

HEADS = st.sampled_from([1, 2, 3, 4, 8, 16, 71])
DIMS = st.sampled_from([32, 64, 96, 128, 256])
WINDOWS = st.none() | st.sampled_from([1, 128, 512, 1000, 4096])

attention = st.builds(Attention, HEADS, DIMS, DIMS, WINDOWS)
layers = (
    attention
    | st.builds(
        Latent, st.sampled_from([256, 512]), st.sampled_from([32, 64]), st.none() | attention
    )
    | st.builds(Indexer, st.just(128))
    | st.builds(
        State, st.integers(1, 30_000), st.integers(0, 600_000), st.sampled_from([None, 2, 4])
    )
)
geometries = st.builds(
    Geometry,
    st.just("model"),
    st.lists(st.builds(Layers, st.integers(1, 60), layers), min_size=1, max_size=4).map(tuple),
    st.none() | st.just(8192),
    st.none() | st.just(32),
    st.builds(Weights, st.integers(10**6, 10**12)),
)
storages = st.builds(
    Storage.of,
    st.sampled_from([name for name, kind in TYPES.items() if kind.token is None]),
    st.sampled_from([1, 2, 3, 4, 8]),
)
contexts = st.integers(1, 200_000)
