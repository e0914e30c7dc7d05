from __future__ import annotations

from kvagent import backends
from kvagent.backends import PROMPT_KEYS


def test_keys_that_shape_the_prompt_on_each_server() -> None:
    assert {"chat_template_kwargs", "reasoning_effort", "cache_salt", "id_slot"} <= PROMPT_KEYS


def test_keys_that_agents_change_freely_are_not_among_them() -> None:
    free = {"messages", "tools", "tool_choice", "response_format", "temperature", "max_tokens"}
    free |= {"n", "stream", "stream_options", "logprobs", "seed", "user", "stop", "session_id"}
    assert not PROMPT_KEYS & free


def test_public_names_are_sorted_and_there() -> None:
    assert backends.__all__ == sorted(
        backends.__all__, key=lambda name: (name.upper() != name, name)
    )
    assert all(hasattr(backends, name) for name in backends.__all__)
