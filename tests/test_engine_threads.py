"""Do conversations that run at once on one engine go out as if each had run alone?"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from pathlib import Path

import pytest

from kvagent import Bypassed, Engine, Event, session
from kvagent.chat import ChatReply
from kvagent.flow import Answer, Call, adrive
from tests.stores.engine.remembered import weight
from tests.strategies import Agent, Exchange, Step, Traits, play, policy, send

THREADS = 64


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


def conversation(
    number: int, turns: int = 6, *, opening: str | None = None, ids: bool = False
) -> list[Exchange]:
    """What agent ``number`` sends; every third tries again, or goes back."""
    steps = []
    for at in range(turns):
        steps.append(Step("turn", what=number * 31 + at, form=(number + at) % 5, ticks=at % 2 == 1))
        if number % 3 == 1 and at == 2:
            steps.append(Step("cut", what=at, form=7))
        if number % 3 == 2 and at == 3:
            steps.append(Step("back", what=number))
    traits = Traits(clock=True, run_id=ids, tools=2)
    return list(Agent(traits, number, seed=number, opening=opening).exchanges(steps))


def alone(exchanges: list[Exchange], name: str | None = None, **fields: object) -> list[bytes]:
    return play(exchanges, Engine(policy(**fields)), name)


def at_once(work: Callable[[int], list[bytes]], count: int) -> list[list[bytes]]:
    """The results of so many threads that begin together."""
    gate = threading.Barrier(count)

    def begin(number: int) -> list[bytes]:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def in_turns(exchanges: list[Exchange], engine: Engine, name: str | None = None) -> list[bytes]:
    rng = random.Random(len(exchanges))
    sent = []
    for exchange in exchanges:
        sent.append(send(exchange, engine, name))
        time.sleep(0 if rng.random() < 0.9 else 1e-4)
    return sent


@pytest.mark.parametrize("mode", ["full", "safe"])
def test_threads_send_what_each_would_send_alone(mode: str) -> None:
    """Each begins with words of its own, so that the content tells the conversations apart."""
    events: list[Event] = []
    engine = Engine(policy(mode=mode), on_event=events.append)
    conversations = [conversation(number) for number in range(THREADS)]
    sent = at_once(lambda number: in_turns(conversations[number], engine), THREADS)
    assert sent == [alone(exchanges, mode=mode) for exchanges in conversations]
    assert engine.ledger.size == weight(engine)
    assert not [event for event in events if isinstance(event, Bypassed)]


def test_named_threads_may_begin_with_the_same_words() -> None:
    engine = Engine(policy())
    conversations = [conversation(n, 4, opening="hello", ids=True) for n in range(THREADS)]

    def work(number: int) -> list[bytes]:
        with session(f"ticket-{number}"):
            return in_turns(conversations[number], engine)

    sent = at_once(work, THREADS)
    assert kept_apart(conversations, sent)
    assert engine.ledger.size == weight(engine)


def kept_apart(conversations: list[list[Exchange]], sent: list[list[bytes]]) -> bool:
    """Whether no id of a conversation stands in what another sent."""
    ids = [
        {value for exchange in exchanges for value in exchange.values.values()}
        for exchanges in conversations
    ]
    return not any(
        value.encode() in raw
        for number, raws in enumerate(sent)
        for raw in raws
        for other, values in enumerate(ids)
        if other != number
        for value in values - ids[number]
    )


def test_unnamed_threads_that_begin_with_the_same_words_share_no_id() -> None:
    engine = Engine(policy())
    conversations = [conversation(n, 4, opening="hello", ids=True) for n in range(THREADS)]
    sent = at_once(lambda number: in_turns(conversations[number], engine), THREADS)
    assert kept_apart(conversations, sent)
    assert engine.ledger.size == weight(engine)


def test_threads_with_little_memory(path: Path) -> None:
    """Conversations are forgotten while others go on from them; the store gives them back."""
    engine = Engine(policy(memory_bytes=20_000), store=path)
    conversations = [conversation(number) for number in range(THREADS // 4)]
    sent = at_once(lambda number: in_turns(conversations[number], engine), THREADS // 4)
    assert sent == [alone(exchanges) for exchanges in conversations]
    assert engine.ledger.size == weight(engine)


def test_engines_on_one_file_in_threads(path: Path) -> None:
    conversations = [conversation(number) for number in range(THREADS // 4)]

    def work(number: int) -> list[bytes]:
        engine = Engine(policy(), store=path)
        sent = in_turns(conversations[number], engine)
        engine.store.close()
        return sent

    assert at_once(work, THREADS // 4) == [alone(exchanges) for exchanges in conversations]


def test_threads_that_try_the_same_request_at_once() -> None:
    """One entry is kept, and every one of them goes on from it."""
    engine = Engine(policy())
    exchanges = conversation(1)
    sent = at_once(lambda number: play(exchanges, engine), 8)
    assert all(raws == sent[0] for raws in sent)
    assert engine.ledger.size == weight(engine)


@pytest.mark.parametrize("named", [True, False])
async def test_tasks_send_what_each_would_send_alone(named: bool) -> None:
    engine = Engine(policy())
    conversations = [conversation(number) for number in range(THREADS)]

    async def answered(exchange: Exchange) -> bytes:
        async def answer(call: Call) -> tuple[Answer, bytes]:
            await asyncio.sleep(0)
            return Answer(500 if exchange.outcome == "refused" else 200), call.body

        raw, settle = await adrive(engine.turn(exchange.body), answer)
        await asyncio.sleep(0)
        complete = exchange.reply is not None
        settle(ChatReply((exchange.reply,) if exchange.reply else (), {}, complete), None)
        return raw

    async def work(number: int) -> list[bytes]:
        with session(f"ticket-{number}") if named else nullcontext():
            return [await answered(exchange) for exchange in conversations[number]]

    sent = await asyncio.gather(*map(work, range(THREADS)))
    assert sent == [alone(exchanges) for exchanges in conversations]


async def test_a_task_inherits_the_session() -> None:
    engine = Engine(policy())
    exchanges = conversation(5, ids=True)
    with session("ticket"):
        task = asyncio.create_task(asyncio.to_thread(play, exchanges, engine))
    assert await task == alone(exchanges, "ticket")


def test_a_thread_has_the_session_that_it_is_given() -> None:
    engine = Engine(policy())
    exchanges = conversation(5, ids=True)
    with session("ticket"):
        context = copy_context()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(context.run, play, exchanges, engine).result()
    assert sent == alone(exchanges, "ticket")
