"""Does whoever sends get asked and told in order, whatever goes wrong?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kvagent.chat import ChatReply
from kvagent.flow import Answer, Ask, Call, Flow, adrive, drive, made


class Broken(Exception):
    """What goes wrong in these tests."""


class Told:
    """A flow that makes these steps, and notes what it is told and that it was ended."""

    def __init__(self, *steps: Call | Ask) -> None:
        self.steps = steps
        self.told: list[Any] = []
        self.ended = False

    def flow(self) -> Flow:
        try:
            for step in self.steps:
                self.told.append((yield step))
        finally:
            self.ended = True
        return settle


def settle(reply: ChatReply, ttft_s: float | None) -> None:
    """Nothing to keep."""


def fails(argument: Any) -> Any:
    raise Broken(argument)


def sends(call: Call) -> tuple[Answer, str]:
    return Answer(len(call.body)), call.body.decode()


async def asends(call: Call) -> tuple[Answer, str]:
    await asyncio.sleep(0)
    return sends(call)


def run_sync(flow: Flow, send: Callable[[Call], Any] = sends) -> Any:
    return drive(flow, send)


def run_async(flow: Flow, send: Callable[[Call], Any] = sends) -> Any:
    async def asending(call: Call) -> Any:
        await asyncio.sleep(0)
        return send(call)

    return asyncio.run(adrive(flow, asending))


each = pytest.mark.parametrize("run", [run_sync, run_async])


@each
def test_calls_are_answered_and_the_last_response_is_the_callers(run: Any) -> None:
    told = Told(Call(b"one", changed=False), Ask(str.upper, "ask"), Call(b"four", changed=True))
    assert run(told.flow()) == ("four", settle)
    assert told.told == [Answer(3), "ASK", Answer(4)]


@each
def test_what_a_model_call_raises_is_its_answer(run: Any) -> None:
    told = Told(Ask(fails, "why"), Call(b"one", changed=False))
    assert run(told.flow())[0] == "one"
    assert isinstance(told.told[0], Broken)
    assert str(told.told[0]) == "why"


@each
def test_what_sending_raises_is_the_callers_and_the_flow_is_ended(run: Any) -> None:
    told = Told(Call(b"one", changed=False), Call(b"two", changed=False))
    with pytest.raises(Broken):
        run(told.flow(), fails)
    assert told.ended
    assert told.told == []


def test_an_interrupt_of_a_model_call_is_none_of_its_answers() -> None:
    def interrupted(argument: Any) -> Any:
        raise KeyboardInterrupt

    told = Told(Ask(interrupted, None), Call(b"one", changed=False))
    with pytest.raises(KeyboardInterrupt):
        run_sync(told.flow())
    assert told.ended


def test_a_coroutine_is_preferred_where_there_is_one() -> None:
    class Both:
        def __call__(self, argument: str) -> str:
            return "called " + argument

        async def acall(self, argument: str) -> str:
            await asyncio.sleep(0)
            return "awaited " + argument

    for run, expected in ((run_sync, "called x"), (run_async, "awaited x")):
        told = Told(Ask(Both(), "x"), Call(b"one", changed=False))
        run(told.flow())
        assert told.told[0] == expected


def test_what_a_coroutine_raises_is_its_answer() -> None:
    class Failing:
        def __call__(self, argument: str) -> str:
            raise AssertionError("not asked")

        async def acall(self, argument: str) -> str:
            raise Broken(argument)

    told = Told(Ask(Failing(), "x"), Call(b"one", changed=False))
    run_async(told.flow())
    assert isinstance(told.told[0], Broken)


def test_a_model_call_does_not_hold_up_other_coroutines() -> None:
    """A function that blocks runs in a thread of its own."""
    from threading import Event

    went_on = Event()

    async def together() -> Any:
        async def other() -> None:
            went_on.set()

        told = Told(Ask(lambda _: went_on.wait(10), None), Call(b"one", changed=False))
        await asyncio.gather(adrive(told.flow(), asends), other())
        return told.told[0]

    assert asyncio.run(together()) is True


def test_a_task_that_is_cancelled_ends_the_flow() -> None:
    told = Told(Call(b"one", changed=False))

    async def never(call: Call) -> tuple[Answer, str]:
        await asyncio.Event().wait()
        return sends(call)

    async def cancelled() -> None:
        task = asyncio.create_task(adrive(told.flow(), never))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert told.ended


def test_steps_without_calls_are_made_here() -> None:
    def steps() -> Any:
        first = yield Ask(int, "7")
        second = yield Ask(int, "no number")
        return first, type(second)

    assert made(steps()) == (7, ValueError)

    def none() -> Any:
        yield from ()
        return "at once"

    assert made(none()) == "at once"
