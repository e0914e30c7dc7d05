"""Is a reply what the server generated and counted, whole or streamed?"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from kvagent.backends import usage_of
from kvagent_langchain import wire

from .sent import USAGE, Sent, chunks, generated


def answered(answer: Any) -> AIMessage:
    assert isinstance(answer, AIMessage)
    return answer


def test_a_reply_is_what_the_server_generated_and_counted(sent: Sent) -> None:
    answer = answered(sent.model.invoke("hello"))
    reply = wire.reply(answer, as_generated=False)
    assert reply.complete
    assert reply.messages == ({"content": "ok", "role": "assistant"},)
    assert reply.counts == {"usage": USAGE, "model": "served"}
    assert usage_of(reply.counts).cached_tokens == 16


def test_a_streamed_reply_is_the_same(sent: Sent) -> None:
    whole = wire.reply(answered(sent.model.invoke("hello")), as_generated=False)
    sent.stream = chunks("stop", USAGE)
    try:
        first, *rest = sent.model.stream("hello", stream_usage=True)
    finally:
        sent.stream = []
    added = answered(sum(rest, first))
    assert wire.reply(added, as_generated=False) == whole


def test_a_stream_that_broke_off_is_no_whole_reply(sent: Sent) -> None:
    sent.stream = chunks(None)
    try:
        first, *rest = sent.model.stream("hello")
    finally:
        sent.stream = []
    assert not wire.reply(answered(sum(rest, first)), as_generated=False).complete


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"finish_reason": "length", "model_provider": "openai"},
        {"model_provider": "openai", "status": "completed"},
        {"model_provider": "anthropic"},
    ],
)
def test_a_model_that_says_no_end_has_ended(told: dict[str, Any]) -> None:
    assert wire.reply(AIMessage("ok", response_metadata=told), as_generated=False).complete


def test_what_was_not_counted_stays_unknown(sent: Sent) -> None:
    plain = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
    for details in (None, {}, {"cached_tokens": None}, {"audio_tokens": 0}):
        sent.answer = {"usage": {**plain, "prompt_tokens_details": details}}
        counts = wire.reply(answered(sent.model.invoke("hello")), as_generated=False).counts
        assert counts["usage"] == plain
        assert usage_of(counts).cached_tokens is None
    sent.answer = {"usage": {**plain, "prompt_tokens_details": {"cached_tokens": 0}}}
    counts = wire.reply(answered(sent.model.invoke("hello")), as_generated=False).counts
    assert usage_of(counts).cached_tokens == 0
    sent.answer = {"usage": {"completion_tokens": 5}}
    counts = wire.reply(answered(sent.model.invoke("hello")), as_generated=False).counts
    assert usage_of(counts).prompt_tokens is None
    sent.answer = {}
    assert wire.reply(AIMessage("ok"), as_generated=False).counts == {}


def test_a_reply_has_what_was_generated_where_it_goes_back() -> None:
    answer = generated('{"a":1}', reasoning_content="hm").model_copy(
        update={"response_metadata": {"timings": {"prompt_n": 3}, "finish_reason": "stop"}}
    )
    reply = wire.reply(answer, as_generated=True)
    assert reply.messages == (wire.as_generated(answer, wire.message(answer)),)
    assert reply.messages[0]["reasoning_content"] == "hm"
    assert reply.counts["timings"] == {"prompt_n": 3}
    assert wire.reply(answer, as_generated=False).messages == (wire.message(answer),)
