"""Does the meter go on where something fails or is given up, and keep only so much of it?"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kvagent import Event
from kvagent_langchain import counts, meter
from kvagent_langchain.meter import KVMeter

from .caching_model import CachingModel
from .talks import helper, pending, question, talk, usages


def test_failures_and_retries_are_no_turns() -> None:
    meter, model = KVMeter(), CachingModel(failing=2)
    retrying = model.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    replies = talk(meter, 3, model=retrying)
    assert meter.turns == len(replies) == 3
    assert meter.prompt_tokens == sum(usage["input_tokens"] for usage in usages(replies))
    assert meter.breaks == []
    assert pending(meter) == (0, 0)


async def test_streams_that_are_given_up_leave_nothing() -> None:
    meter, model = KVMeter(), CachingModel()
    for chunk in model.stream([question(0)], {"callbacks": [meter]}):
        assert chunk is not None
        break
    stream: Any = model.astream([question(1)], {"callbacks": [meter]})
    async for _ in stream:
        break
    await stream.aclose()
    task = asyncio.create_task(model.ainvoke([question(2)], {"callbacks": [meter]}))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(meter._runs) <= 1  # a task that is cancelled is told of to nobody
    assert meter.turns <= 1


def test_what_is_never_ended_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain tells nothing of the rest of a `generate` of which one prompt failed."""
    meter_, model = KVMeter(), CachingModel(failing=1)
    with pytest.raises(ConnectionError):
        model.generate([[question(number)] for number in range(20)], callbacks=[meter_])
    assert pending(meter_)[0] == 19
    monkeypatch.setattr(meter, "_MOST_PENDING_BYTES", 5 * meter._RUN_BYTES)
    model.invoke([question(99)], {"callbacks": [meter_]})
    runs, size = pending(meter_)
    assert runs <= 5
    assert size <= 5 * meter._RUN_BYTES
    assert meter_.turns == 1


def test_conversations_are_bounded_and_sums_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_MOST_CONVERSATIONS", 3)
    meter = KVMeter()
    for number in range(6):
        talk(meter, 1, head=helper(number))
    assert len(meter.conversations) == 3
    assert meter.turns == 6


def test_on_event_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        raise ValueError("not mine")

    meter = KVMeter(on_event=fail)
    with caplog.at_level(logging.CRITICAL, "kvagent"):
        talk(meter, 3)
    assert meter.turns == 3
