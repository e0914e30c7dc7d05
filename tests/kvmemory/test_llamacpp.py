from __future__ import annotations

import pytest

from kvagent.kvmemory.geometry import Attention, Geometry, Indexer, Latent, Layers, State
from kvagent.kvmemory.llamacpp import reserve
from kvagent.kvmemory.memory import Storage
from kvagent.kvmemory.models import model

LLAMA = model("Llama-3-8B").geometry()
GEMMA = model("Gemma-3-270M").geometry()


@pytest.mark.parametrize(
    ("context", "slots", "cells"), [(8192, 1, 8192), (8193, 1, 8448), (1, 3, 256), (4096, 4, 4096)]
)
def test_cells_are_padded(context: int, slots: int, cells: int) -> None:
    found = reserve(LLAMA, context, slots, Storage.of())
    assert (found.cells, found.window_cells) == (cells, None)
    assert found.bytes == cells * slots * 131_072


def test_windows_hold_what_is_computed_at_a_time_besides() -> None:
    found = reserve(GEMMA, 4096, 2, Storage.of())
    assert found.window_cells == 1024  # 512 + 512
    assert found.bytes == 2 * (4096 * 3 + 1024 * 15) * 1024
    assert reserve(GEMMA, 4096, 2, Storage.of(), ubatch=600).window_cells == 1280
    assert reserve(GEMMA, 256, 1, Storage.of()).window_cells == 256


def test_a_shared_pool_has_the_windows_of_all_slots() -> None:
    found = reserve(GEMMA, 5000, 3, Storage.of(), unified=True)
    assert (found.cells, found.window_cells) == (15_104, 2048)  # 15,000, and 3 × 512 + 512
    assert found.bytes == (15_104 * 3 + 2048 * 15) * 1024


def test_states_are_in_32_bits_for_each_slot() -> None:
    hybrid = Geometry("h", (Layers(6, State(100, 1000, 2)), Layers(2, Attention(1, 64, 64))))
    assert reserve(hybrid, 256, 3, Storage.of()).bytes == 3 * (6 * 1100 * 4 + 2 * 256 * 256)


def test_keys_and_values_of_other_types() -> None:
    found = reserve(LLAMA, 8192, 1, Storage.of("q8_0/q4_0"))
    assert found.bytes == 8192 * 32 * 8 * (136 + 72)


def test_an_indexer_s_key_has_the_type_of_keys() -> None:
    sparse = Geometry("s", (Layers(2, Latent(512, 64)), Layers(2, Indexer(128))))
    assert reserve(sparse, 256, 1, Storage.of()).bytes == 2 * 256 * (576 + 128) * 2


def test_tensor_parallelism_is_vllm_s() -> None:
    assert reserve(LLAMA, 8192, 1, Storage.of(tp=8)) == reserve(LLAMA, 8192, 1, Storage.of())
