"""Do engines on one file, one after the other or in turns, send what a single one would?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given

from kvagent import Engine
from tests.stores.engine.processes import HELLO, new_file, system, turn, wire
from tests.stores.engine.rules import rule
from tests.strategies import (
    Agent,
    Exchange,
    Step,
    Traits,
    dumped,
    interleaved,
    only,
    play,
    policy,
    send,
)
from tests.wire import Message, call, result, say


def one_request(exchange: Exchange, store: Path) -> bytes:
    """What goes out from an engine that lives for this request alone."""
    engine = Engine(policy(), store=store)
    try:
        return send(exchange, engine)
    finally:
        engine.store.close()


@rule
@given(interleaved(agents=2))
def test_an_engine_a_request_gives_the_bytes_of_one_engine(exchanges: list[Exchange]) -> None:
    """A process that ends after each request loses nothing."""
    with new_file() as path:
        assert [one_request(e, path) for e in exchanges] == play(exchanges, Engine(policy()))


@rule
@given(interleaved(only(clock=False, run_id=False, ticket=False), agents=2))
def test_engines_on_one_file_take_turns(exchanges: list[Exchange]) -> None:
    """Each reads what the other wrote.

    Without a clock: which of two tries of a request one engine goes on from, while another made
    the second, is left open.
    """
    with new_file() as path:
        engines = [Engine(policy(), store=path) for _ in range(2)]
        turns = [send(e, engines[at % 2]) for at, e in enumerate(exchanges)]
        for engine in engines:
            engine.store.close()
    assert turns == play(exchanges, Engine(policy()))


def test_engines_take_turns_while_a_clock_ticks(path: Path) -> None:
    agent = Agent(Traits(clock=True, run_id=True, ticket=True, tools=2), seed=11)
    exchanges = list(agent.exchanges(map(turn, range(12))))
    engines = [Engine(policy(), store=path) for _ in range(3)]
    turns = [send(e, engines[at % 3]) for at, e in enumerate(exchanges)]
    assert turns == play(exchanges, Engine(policy()))


def test_a_request_that_another_process_tried_again(path: Path) -> None:
    """The conversation goes on from the try whose reply comes back, though the clock had ticked."""

    def head(second: int) -> Message:
        return system(f"You are careful.\nCurrent time: 12:00:0{second}")

    history = [HELLO, call("c1", content="I will look."), result("c1", "nothing")]
    one, two = wire(path), wire(path)
    one.send([head(1), HELLO], history[1])
    one.send([head(2), *history], settle=True)  # the stream was cut
    tried = two.send([head(3), *history], say("assistant", "There is nothing."))
    after = one.send(
        [head(3), *history, say("assistant", "There is nothing."), say("user", "Look again.")]
    )
    assert after[: len(tried)] == tried
    assert "12:00:03" in tried[-1]["content"]


def test_another_process_goes_on(path: Path) -> None:
    agent = Agent(Traits(clock=True, ticket=True, tools=3), seed=7)
    steps = [Step("turn", what=number, form=number, ticks=number % 3 == 1) for number in range(9)]
    exchanges = list(agent.exchanges(steps))
    first = Engine(policy(), store=path)
    sent = play(exchanges[:4], first)
    sent += played_elsewhere(exchanges[4:7], path)
    sent += play(exchanges[7:], first)
    assert sent == play(exchanges, Engine(policy()))


def played_elsewhere(exchanges: list[Exchange], store: Path) -> list[bytes]:
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.strategies import serve; serve({str(store)!r})"],
        input=dumped(exchanges) + "\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONHASHSEED": "815", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [raw.encode() for raw in json.loads(done.stdout)]
