"""Does the meter count what models report, whoever they are and however they are called?"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.messages import AIMessage, BaseMessage

from integrations.openai.tests.null_server import NullServer, completion
from kvagent import Event, TurnFinished
from kvagent_langchain.meter import KVMeter

from .caching_model import CachingModel
from .talks import chat, pending, question, steady, talk, usages


def test_it_counts_what_the_model_reports() -> None:
    meter = KVMeter()
    told = usages(talk(meter, 6))
    cached = sum(usage["input_token_details"]["cache_read"] for usage in told)
    prompts = [usage["input_tokens"] for usage in told]
    assert meter.turns == 6
    assert meter.prompt_tokens == sum(prompts)
    assert meter.cached_tokens == cached
    assert meter.prefilled_tokens == sum(prompts) - cached
    assert meter.completion_tokens == sum(usage["output_tokens"] for usage in told)
    assert meter.hit_rate == cached / sum(prompts)
    assert meter.hit_rate is not None
    assert meter.hit_rate > 0.6
    assert meter.breaks == []
    assert meter.misses == []
    (conversation,) = meter.conversations
    assert conversation.newest_prompt_tokens == prompts[-1]
    steps = [after - before for before, after in pairwise(prompts)]
    assert conversation.growth_per_turn == pytest.approx(sum(steps) / 5)
    assert sum(conversation.growth.values()) == prompts[-1]
    assert set(conversation.growth) == {"head", "user", "assistant"}


def test_what_cannot_be_called_with_an_event_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="on_event is a value of type str; wanted is a function"):
        KVMeter(on_event="print")  # type: ignore[arg-type]


def test_each_model_has_its_own_sums() -> None:
    meter = KVMeter()
    small, large = CachingModel(model="small"), CachingModel(model="large")
    one, other = usages(talk(meter, 3, model=small)), usages(talk(meter, 2, model=large))
    models = meter.models
    assert list(models) == ["small", "large"]
    assert models["small"].prompt_tokens == sum(usage["input_tokens"] for usage in one)
    assert models["large"].prompt_tokens == sum(usage["input_tokens"] for usage in other)
    assert meter.turns == models["small"].turns + models["large"].turns == 5
    assert {each.model for each in meter.conversations} == {"small", "large"}
    assert meter.breaks == []


@pytest.mark.parametrize("how", ["invoke", "stream", "ainvoke", "astream", "astream_events"])
async def test_however_it_is_called(how: str) -> None:
    meter, plain = KVMeter(), KVMeter()
    expected = usages(talk(plain, 3))
    model, history = CachingModel(), steady(0)
    told: list[Event] = []
    meter = KVMeter(on_event=told.append)
    for number in range(3):
        history.append(question(number))
        config: Any = {"callbacks": [meter]}
        if how == "invoke":
            reply = model.invoke(history, config)
        elif how == "ainvoke":
            reply = await model.ainvoke(history, config)
        elif how == "stream":
            whole: Any = None
            for chunk in model.stream(history, config):
                whole = chunk if whole is None else whole + chunk
            reply = AIMessage(whole.text, usage_metadata=whole.usage_metadata)
        elif how == "astream":
            whole = None
            async for chunk in model.astream(history, config):
                whole = chunk if whole is None else whole + chunk
            reply = AIMessage(whole.text, usage_metadata=whole.usage_metadata)
        else:
            async for event in model.astream_events(history, config, version="v2"):
                if event["event"] == "on_chat_model_end":
                    reply = event["data"]["output"]
        history.append(reply)
    assert meter.prompt_tokens == sum(usage["input_tokens"] for usage in expected)
    assert meter.cached_tokens == plain.cached_tokens
    assert meter.breaks == []
    turns = [event for event in told if isinstance(event, TurnFinished)]
    assert [turn.turn for turn in turns] == [1, 2, 3]
    assert all(turn.ttft_s is not None and turn.ttft_s > 0 for turn in turns)
    assert pending(meter) == (0, 0)


def test_several_choices_are_one_request(server: NullServer) -> None:
    meter = KVMeter()
    server.scripted.append(completion({"content": "one"}, {"content": "two"}))
    model = chat(server, n=2)
    model.generate([[question(0)]], callbacks=[meter])
    assert (meter.turns, meter.prompt_tokens) == (1, 20)


def test_a_reply_from_langchains_own_cache_is_no_request() -> None:
    meter, model = KVMeter(), CachingModel(cache=InMemoryCache())
    for _ in range(3):
        model.invoke([question(0)], {"callbacks": [meter]})
    assert meter.turns == 1
    assert pending(meter) == (0, 0)


def test_what_no_provider_knows_is_counted_all_the_same() -> None:
    class Odd(BaseMessage):
        type: str = "odd"

    meter, model = KVMeter(), CachingModel()
    model.invoke([question(0), Odd(content="?")], {"callbacks": [meter]})
    model.invoke([question(0)], {"callbacks": [meter]}, tools=["web", {"n": 2**70}])
    assert meter.turns == 2


def test_it_needs_no_client_of_openai() -> None:
    """Somebody else's model may be of any provider."""
    code = "import sys; sys.modules['langchain_openai'] = sys.modules['openai'] = None\n"
    code += "from kvagent_langchain.meter import KVMeter; print(KVMeter())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("0 turns")
