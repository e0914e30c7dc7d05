"""Does the formula that is shown come to the figure that is shown?"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.kvmemory.formula import formula
from kvagent.kvmemory.geometry import Attention, Indexer, Latent, Layers, State
from kvagent.kvmemory.memory import Storage, state_bytes, token_bytes
from tests.kvmemory.strategies import layers, rule, storages


def by_hand(text: str) -> Fraction:
    """What somebody gets who types the formula into a calculator."""
    numbers = re.sub(r"[a-zB]+", "", text.replace(",", "")).replace("×", "*")
    exact = re.sub(r"[\d.]+", lambda number: f"Fraction('{number[0]}')", numbers)
    return Fraction(eval(exact, {"Fraction": Fraction}))  # our own text, nothing from outside


@pytest.mark.parametrize(
    ("kinds", "storage", "text"),
    [
        (Layers(32, Attention(8, 128, 128)), "f16", "32 layers × 8 heads × (128 + 128) × 2 B"),
        (
            Layers(32, Attention(8, 128, 128)),
            "q8_0",
            "32 layers × 8 heads × (128 + 128) × 1.0625 B",
        ),
        (Layers(1, Attention(1, 64, 64)), "f16", "1 layer × 1 head × (64 + 64) × 2 B"),
        (
            Layers(2, Attention(8, 128, 96)),
            "q8_0/q4_0",
            "2 layers × 8 heads × (128 × 1.0625 + 96 × 0.5625) B",
        ),
        (
            Layers(2, Attention(8, 128, 128)),
            "int8_per_token_head",
            "2 layers × 8 heads × (128 × 1 + 4 + 128 × 1 + 4) B",
        ),
        (Layers(61, Latent(512, 64)), "bf16", "61 layers × (512 + 64) × 2 B"),
        (Layers(61, Latent(512, 64)), "fp8_ds_mla", "61 layers × 656 B"),
        (Layers(61, Indexer(128)), "bf16", "61 layers × (128 + 4) B"),
        (Layers(36, State(24_576, 524_288)), "f16", "36 layers × (24,576 × 2 + 524,288 × 4) B"),
    ],
)
def test_formulas(kinds: Layers, storage: str, text: str) -> None:
    assert formula(kinds, Storage.of(storage)) == text


@rule
@given(st.builds(Layers, st.integers(1, 80), layers), storages)
def test_a_formula_worked_out_by_hand_gives_the_bytes(kinds: Layers, storage: Storage) -> None:
    layer = kinds.layer
    exact = state_bytes(layer, storage) if isinstance(layer, State) else token_bytes(layer, storage)
    assert by_hand(formula(kinds, storage)) == kinds.count * exact
    assert ceil(kinds.count * exact) >= 0
