from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.backends import Usage, usage_of

Recorded = Callable[[str], dict[str, Any]]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
COUNT_KEYS = ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "cached_tokens")
TIMING_KEYS = ("cache_n", "prompt_n", "predicted_n", "prompt_ms")


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("llamacpp_chat", (27, 0, 8)),
        ("llamacpp_chat_cached", (27, 26, 8)),
        ("llamacpp_stream_last_with_usage", (27, 26, 8)),
        ("llamacpp_stream_last_without_usage", (27, 26, 8)),
    ],
)
def test_real_llamacpp_replies(recorded: Recorded, name: str, usage: tuple[int, int, int]) -> None:
    reply = recorded(name)
    found = usage_of(reply)
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == usage
    assert found.prompt_ms == reply["timings"]["prompt_ms"]


def test_vllm_without_details_is_unknown_not_zero(recorded: Recorded) -> None:
    assert usage_of(recorded("vllm_written")["chat"]) == Usage(388, None, 2, None)


def test_vllm_with_details(recorded: Recorded) -> None:
    assert usage_of(recorded("vllm_written")["chat_with_details"]) == Usage(388, 256, 2, None)


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        pytest.param({}, Usage(None, None, None, None), id="nothing"),
        pytest.param({"usage": None}, Usage(None, None, None, None), id="null usage"),
        pytest.param(
            {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}},
            Usage(9, 0, None, None),
            id="a reported miss",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}},
            Usage(9, None, None, None),
            id="null count",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9}, "timings": {"prompt_n": 2}},
            Usage(9, 7, None, None),
            id="older llama.cpp: the rest was cached",
        ),
        pytest.param(
            {"timings": {"prompt_n": 2, "predicted_n": 3}},
            Usage(None, None, 3, None),
            id="what was prefilled is not the prompt",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 10}}},
            Usage(9, None, None, None),
            id="more cached than there is",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": 9.0, "completion_tokens": True}},
            Usage(9, None, None, None),
            id="a whole float counts, a boolean does not",
        ),
        pytest.param(
            {"usage": {"prompt_tokens": -1}, "timings": {"prompt_ms": float("inf")}},
            Usage(None, None, None, None),
            id="no such numbers",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_none(reply: dict[str, Any], usage: Usage) -> None:
    assert usage_of(reply) == usage


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "usage": JSON | st.dictionaries(st.sampled_from(COUNT_KEYS), JSON),
            "timings": JSON | st.dictionaries(st.sampled_from(TIMING_KEYS), JSON),
        },
    )
)
def test_any_json_gives_counts_that_can_be(reply: dict[str, Any]) -> None:
    usage = usage_of(reply)
    for count in (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens):
        assert count is None or (type(count) is int and count >= 0)
    if usage.prompt_tokens is not None and usage.cached_tokens is not None:
        assert usage.cached_tokens <= usage.prompt_tokens
