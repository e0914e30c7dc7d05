"""Does a block count what runs in it, nested or not, and nothing else?"""

from __future__ import annotations

import asyncio

import pytest

from kvagent_langchain import meter
from kvagent_langchain.meter import KVMeter, kv_meter

from .caching_model import CachingModel
from .talks import question


def test_a_block_counts_what_runs_in_it() -> None:
    model = CachingModel()
    model.invoke([question(0)])
    with kv_meter() as outer:
        model.invoke([question(1)])
        with kv_meter(window=9_000) as inner:
            model.invoke([question(2)])
            model.batch([[question(3)], [question(4)]])
        model.invoke([question(5)])
    model.invoke([question(6)])
    assert (outer.turns, inner.turns) == (5, 3)


async def test_tasks_inherit_a_block() -> None:
    model = CachingModel()
    with kv_meter() as meter:
        await asyncio.gather(*(model.ainvoke([question(number)]) for number in range(5)))
    assert meter.turns == 5


def test_a_block_ends_by_an_error_too() -> None:
    model = CachingModel()
    opened: list[KVMeter] = []

    def fail() -> None:
        with kv_meter() as measured:
            opened.append(measured)
            model.invoke([question(0)])
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    model.invoke([question(1)])
    assert opened[0].turns == 1


def test_blocks_one_after_the_other_leave_one_hook() -> None:
    with kv_meter(), kv_meter():
        pass
    known = len(meter._meters)
    for _ in range(50):
        with kv_meter(), kv_meter():
            pass
    assert len(meter._meters) == known
