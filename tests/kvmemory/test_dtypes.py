from __future__ import annotations

from fractions import Fraction

import pytest

from kvagent.kvmemory.dtypes import LLAMACPP, TYPES, VLLM, UnknownType, kv_type, kv_types


@pytest.mark.parametrize(
    ("name", "of_128"),
    [
        ("f32", 512),
        ("f16", 256),
        ("bf16", 256),
        ("fp8", 128),
        ("fp8_e4m3", 128),
        ("fp8_e5m2", 128),
        ("nvfp4", 72),
        ("int8_per_token_head", 132),
        ("fp8_per_token_head", 132),
        ("int4_per_token_head", 68),
        ("q8_0", 136),
        ("q5_1", 96),
        ("q5_0", 88),
        ("q4_1", 80),
        ("q4_0", 72),
        ("iq4_nl", 72),
    ],
)
def test_bytes_of_a_vector_of_128(name: str, of_128: int) -> None:
    assert kv_type(name).vector(128) == of_128


@pytest.mark.parametrize(
    ("name", "element"), [("q8_0", "17/16"), ("q5_1", "3/4"), ("q4_0", "9/16"), ("q4_1", "5/8")]
)
def test_nothing_is_rounded(name: str, element: str) -> None:
    assert kv_type(name).element == Fraction(element)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("auto", "f16"),
        ("FP16", "f16"),
        ("float16", "f16"),
        ("BFloat16", "bf16"),
        (" Q8_0 ", "q8_0"),
    ],
)
def test_other_names(said: str, name: str) -> None:
    assert kv_type(said).name == name


def test_keys_and_values_may_differ_in_llamacpp() -> None:
    types = kv_types("q8_0/q4_0")
    assert (types.key.name, types.value.name, types.name) == ("q8_0", "q4_0", "q8_0/q4_0")
    assert types.servers == (LLAMACPP,)
    assert kv_types("f16/q8_0").servers == (LLAMACPP,)
    assert kv_types("q8_0/q8_0").name == "q8_0"
    with pytest.raises(UnknownType, match="no server keeps keys in fp8 and values in q4_0"):
        kv_types("fp8/q4_0")


def test_whose_they_are() -> None:
    assert kv_types("f16").servers == (VLLM, LLAMACPP)
    assert kv_types("fp8").servers == (VLLM,)
    assert kv_types("q8_0").servers == (LLAMACPP,)


@pytest.mark.parametrize(
    ("said", "hint"),
    [("fp9", "did you mean fp8"), ("zebra", "there are f16, bf16"), ("", "there are")],
)
def test_an_unknown_type_says_which_there_are(said: str, hint: str) -> None:
    with pytest.raises(UnknownType, match=hint):
        kv_types(said)


def test_every_name_is_found() -> None:
    assert all(kv_type(name) is kind for name, kind in TYPES.items())
