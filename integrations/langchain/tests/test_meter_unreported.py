"""Is what no server reports unknown, and is the remedy told once?"""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from integrations.openai.tests.null_server import Answer, NullServer, completion, events, sse
from kvagent_langchain.meter import KVMeter, MissingUsageWarning

from .caching_model import CachingModel
from .talks import chat, clock, question, talk


def test_nothing_reported_is_unknown_and_not_zero() -> None:
    meter = KVMeter()
    with pytest.warns(MissingUsageWarning):
        talk(meter, 2, model=CachingModel(reports="nothing"))
    assert (meter.turns, meter.prompt_tokens) == (2, 0)
    assert meter.cached_tokens is None
    assert meter.prefilled_tokens is None
    assert meter.hit_rate is None


def streamed(usage: dict[str, Any] | None) -> Answer:
    chunks = events({"content": "A short answer."})
    if usage is not None:
        last = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "null"}
        chunks.insert(
            -1, f"data: {json.dumps({**last, 'choices': [], 'usage': usage})}\n\n".encode()
        )
    return sse(chunks)


USAGE = {"prompt_tokens": 200, "completion_tokens": 5, "total_tokens": 205}


def test_a_stream_without_usage_is_told_once_with_the_remedy(server: NullServer) -> None:
    server.respond = lambda seen: streamed(USAGE if seen.json.get("stream_options") else None)
    meter = KVMeter()
    model = chat(server)

    def stream_all(*numbers: int) -> None:
        for number in numbers:
            list(model.stream([question(number)], {"callbacks": [meter]}))

    with pytest.warns(MissingUsageWarning, match="stream_usage=True") as warned:
        stream_all(1, 2, 3)
    assert len(warned) == 1
    assert "stream_usage=True" in meter.report().replace("\n", " ")
    model = chat(server, stream_usage=True)
    stream_all(9)
    assert meter.prompt_tokens == 200


def test_cached_tokens_that_are_never_reported_are_told_once(server: NullServer) -> None:
    server.respond = lambda seen: completion({"content": "Yes."}, usage=USAGE)
    meter = KVMeter()
    model = chat(server)
    with pytest.warns(MissingUsageWarning, match="--enable-prompt-tokens-details") as warned:
        talk(meter, 4, model=model)
    assert len(warned) == 1
    assert meter.hit_rate is None


def test_a_first_turn_without_cached_tokens_is_no_evidence(server: NullServer) -> None:
    """Some versions of vLLM leave the count out where it is 0."""
    server.respond = lambda seen: completion({"content": "Yes."}, usage=USAGE)
    meter = KVMeter()
    model = chat(server)
    talk(meter, 1, model=model)
    talk(meter, 3, model=model, head=clock)  # every prompt breaks, so nothing was cached
    assert meter.turns == 4


def test_a_model_that_reports_nothing(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    meter = KVMeter()
    model = GenericFakeChatModel(messages=iter([AIMessage("one"), AIMessage("two")]))
    for number in range(2):
        model.invoke([question(number)], {"callbacks": [meter]})
    assert [warning.category for warning in recwarn] == [MissingUsageWarning]
    assert meter.turns == 2
