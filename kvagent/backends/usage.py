"""How many tokens did a reply take, and how many of them came from the cache?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvagent.backends import llamacpp, openai
from kvagent.backends.values import Usage
from kvagent.backends.wire import mapping


def usage_of(reply: Mapping[str, Any]) -> Usage:
    """The counts of a chat completion, or of a stream's last chunks merged into one mapping.

    ``usage`` comes first; llama.cpp's ``timings`` fill in what it lacks, so that a stream for
    which nobody asked for ``usage`` is counted there as well. Never raises: what is missing or is
    not a number is ``None``.
    """
    reply = mapping(reply)
    said, timed = openai.counts(reply), llamacpp.timings(reply)
    prompt = said.prompt if said.prompt is not None else _sum(timed.cached, timed.prefilled)
    cached = said.cached if said.cached is not None else timed.cached
    if cached is None and prompt is not None and timed.prefilled is not None:
        # Older llama.cpp: the prompt, and how much of it was prefilled; the rest was cached.
        cached = prompt - timed.prefilled
    if cached is not None and prompt is not None and not 0 <= cached <= prompt:
        cached = None  # cannot be, so it is not known
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=said.completion if said.completion is not None else timed.predicted,
        prompt_ms=timed.prompt_ms,
        decode_ms=timed.predicted_ms,
    )


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b
