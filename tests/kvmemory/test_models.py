from __future__ import annotations

import pytest

from kvagent.kvmemory.models import UnknownModel, model


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("llama-3-8b", "Llama-3-8B"),
        ("LLAMA 3 8B", "Llama-3-8B"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "Llama-3-8B"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen2.5-7B"),
        ("google/gemma-3-27b-it", "Gemma-3-27B"),
        ("Qwen3-30B-A3B-Instruct-2507", "Qwen3-30B-A3B"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "Mistral-7B"),
        ("mistralai/Mistral-7B-Instruct-v0.1", "Mistral-7B-v0.1"),
        ("deepseek-r1", "DeepSeek-V3"),
        ("SmolLM2-135M-Instruct", "SmolLM2-135M"),
        ("gemma-3-270m-q4_k_m-gguf", "Gemma-3-270M"),
    ],
)
def test_names_people_use(said: str, name: str) -> None:
    assert model(said).name == name


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(
        UnknownModel, match=r"no model 'lama 3' in the table, the nearest are Llama-3-8B"
    ):
        model("lama 3")


@pytest.mark.parametrize("said", ["", "/", "-instruct", "模型", "x" * 10_000, "q4"])
def test_nonsense_is_unknown(said: str) -> None:
    with pytest.raises(UnknownModel):
        model(said)
