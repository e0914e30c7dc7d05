"""Does the meter count what a real server counts?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from langchain_openai import ChatOpenAI

from kvagent_langchain.meter import KVMeter

from .talks import clock, question, steady, talk, usages


def on_llamacpp(base_url: str) -> ChatOpenAI:
    options: dict[str, Any] = {"model": "default", "base_url": base_url, "api_key": "none"}
    return ChatOpenAI(**options, max_completion_tokens=8, stream_usage=True)


def test_llamacpp_says_the_same(llamacpp: str) -> None:
    """An append-only chat hits; a clock in front of it makes the server prefill all of it again."""
    model = on_llamacpp(llamacpp)
    good, bad = KVMeter(), KVMeter()
    replies = talk(good, 3, model=model)
    cached = [usage["input_token_details"]["cache_read"] for usage in usages(replies)]
    assert good.cached_tokens == sum(cached)
    assert good.breaks == []
    for before, after in pairwise(usages(replies)):
        assert after["input_token_details"]["cache_read"] >= before["input_tokens"] - 1
    talk(bad, 3, model=model, head=clock)
    assert [each.cause for each in bad.breaks] == ["volatile_text"] * 2
    assert good.hit_rate is not None
    assert bad.hit_rate is not None
    assert good.hit_rate > bad.hit_rate


def test_llamacpp_streamed(llamacpp: str) -> None:
    model = on_llamacpp(llamacpp)
    meter, history = KVMeter(), steady(0)
    for number in range(2):
        history.append(question(number))
        whole: Any = None
        for chunk in model.stream(history, {"callbacks": [meter]}):
            whole = chunk if whole is None else whole + chunk
        history.append(whole)
    assert meter.turns == 2
    assert meter.breaks == []
    assert meter.cached_tokens is not None
    assert meter.cached_tokens > 0
