from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.kvmemory.geometry import Weights
from kvagent.kvmemory.models import model
from kvagent.kvmemory.weights import (
    BITS,
    UnknownWeights,
    read_bytes,
    weight_bytes,
    weights_type,
)
from tests.kvmemory.strategies import rule


@pytest.mark.parametrize(
    ("name", "kind", "gb"),
    [
        ("Llama-3-8B", None, 16.06),
        ("Llama-3-8B", "q8_0", 8.54),
        ("Llama-3-8B", "q4_k_m", 4.92),
        ("Llama-3-8B", "q5_k_m", 5.73),
        ("Llama-3-8B", "q6_k", 6.60),
        ("Llama-3.3-70B", "bf16", 141.1),
        ("DeepSeek-V3", None, 671),
        ("gpt-oss-20b", None, 13.8),
        ("gpt-oss-120b", None, 65.2),
    ],
)
def test_sizes_of_published_files(name: str, kind: str | None, gb: float) -> None:
    found = weight_bytes(model(name).geometry().weights, kind)
    assert found == pytest.approx(gb * 1e9, rel=0.01)


def test_what_lies_on_disk_goes_before_what_follows_from_a_type() -> None:
    weights = Weights(parameters=1_000, bytes=1_234)
    assert weight_bytes(weights) == 1_234
    assert weight_bytes(weights, "bf16") == 2_000
    assert weight_bytes(Weights(bytes=5)) == 5


def test_without_a_number_of_parameters_there_is_no_answer() -> None:
    with pytest.raises(UnknownWeights, match="how many parameters"):
        weight_bytes(Weights())
    with pytest.raises(UnknownWeights, match="how many parameters"):
        read_bytes(Weights(bytes=5), 1)


def test_one_token_reads_what_it_passes_through() -> None:
    weights = model("Mixtral-8x7B").geometry().weights
    assert weights.active_parameters is not None
    assert read_bytes(weights, 1) == pytest.approx(2 * weights.active_parameters)


def test_two_tokens_that_choose_at_random_read_more_than_one_and_many_read_all() -> None:
    weights = model("Mixtral-8x7B").geometry().weights
    one, two, many = (read_bytes(weights, requests) for requests in (1, 2, 200))
    expert = 2 * weights.expert_parameters / 8
    # 2 of 8 for the first; each of the other 6 is chosen by the second with a chance of 1 in 4.
    assert two - one == pytest.approx(6 / 4 * expert)
    assert many - one == pytest.approx(6 * expert)


@rule
@given(
    st.integers(1, 64),
    st.sampled_from(["Mixtral-8x7B", "Llama-3-8B", "gpt-oss-20b", "DeepSeek-V3"]),
    st.none() | st.sampled_from(sorted(BITS)),
)
def test_more_requests_read_more_experts_but_never_more_than_all(
    requests: int, name: str, kind: str | None
) -> None:
    weights = model(name).geometry().weights
    few, more = read_bytes(weights, requests, kind), read_bytes(weights, requests + 1, kind)
    assert few <= more <= weight_bytes(weights, kind)


@pytest.mark.parametrize(
    ("said", "kind"), [("BF16", "bf16"), ("fp16", "f16"), ("AWQ", "int4"), ("Q4_K_M", "q4_k_m")]
)
def test_names(said: str, kind: str) -> None:
    assert weights_type(said) == kind


def test_an_unknown_type_says_which_there_are() -> None:
    with pytest.raises(UnknownWeights, match="did you mean q4_k_m"):
        weights_type("q4_k_n")
    with pytest.raises(UnknownWeights, match="there are f32, bf16"):
        weights_type("zebra")
