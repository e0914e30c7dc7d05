"""Are requests that run at the same time as many conversations, each counted once?"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from langchain_core.messages import HumanMessage

from kvagent_langchain.meter import KVMeter

from .caching_model import CachingModel
from .talks import helper, pending, question, steady, talk, usages


def test_a_batch_is_as_many_conversations() -> None:
    meter, model = KVMeter(), CachingModel()
    inputs: list[Any] = [[*steady(0), question(number)] for number in range(40)]
    replies = model.batch(inputs, {"callbacks": [meter], "max_concurrency": 8})
    assert meter.turns == 40
    assert meter.prompt_tokens == sum(usage["input_tokens"] for usage in usages(replies))
    assert len(meter.conversations) == 40
    assert meter.breaks == []
    assert pending(meter) == (0, 0)


async def test_many_at_once_in_a_loop() -> None:
    meter, model = KVMeter(), CachingModel()

    async def one(number: int) -> None:
        history = [*steady(0), HumanMessage(f"This is the conversation number {number}, hello!")]
        for _ in range(3):
            reply = await model.ainvoke(history, {"callbacks": [meter]})
            history += [reply, question(number)]

    await asyncio.gather(*(one(number) for number in range(20)))
    assert meter.turns == 60
    assert [each.turns for each in meter.conversations] == [3] * 20
    assert meter.breaks == []


def test_from_plain_threads() -> None:
    meter, model = KVMeter(), CachingModel()

    def one(number: int) -> None:
        talk(meter, 4, model=model, head=helper(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(16)))
    assert meter.turns == 64
    assert sorted(each.turns for each in meter.conversations) == [4] * 16
    assert meter.breaks == []
