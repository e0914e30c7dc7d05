"""Which requests tell one simulator of llama.cpp's slots from another?

Growing sessions alone tell nothing apart: an endless cache is right about them too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.prediction import wild
from tests.prediction.llamacpp import Played, Player, Setup
from tests.prediction.rows import Row
from tests.prediction.sessions import (
    TOOLS,
    Session,
    body,
    edited,
    growing,
    recorded,
    resent,
    text,
    with_tool_calls,
)
from tests.tiny_model import GEMMA3, MAMBA, SLIM

THINK = Path(__file__).with_name("think.jinja")


@dataclass(frozen=True, slots=True)
class Scenario:
    """Sessions on a server; scenarios with one setup that follow each other share the server."""

    name: str
    setup: Setup
    sessions: Callable[[], Sequence[Session]]
    turns: Sequence[int] | None = None
    """Whose turn it is, by number; None is round by round."""
    at_once: int = 1

    def play(self, player: Player) -> Iterable[Row]:
        """The rows, as they come."""
        if self.at_once > 1:
            return player.play_at_once(self.name, self.sessions(), self.at_once)
        return player.play(self.name, self.sessions(), self.turns)


def run(
    scenarios: Iterable[Scenario],
    models: Path,
    record: Callable[[Setup], Callable[[Played], None]] | None = None,
) -> Iterator[Row]:
    """Every row of every scenario; model files are made in ``models``, or found there.

    ``record`` is told of each server, and what it returns gets each request to it.
    """
    for setup, group in groupby(scenarios, key=lambda scenario: scenario.setup):
        with Player(setup, models, record(setup) if record else None) as player:
            for scenario in group:
                yield from scenario.play(player)


def one_slot() -> Iterator[Scenario]:
    """What an agent that is alone does, and what it had better not do."""
    setup = Setup(n_ctx=32_768)
    yield Scenario("a growing session", setup, lambda: [growing(1, 8, max_tokens=12)])
    yield Scenario("tool calls", setup, lambda: [with_tool_calls(2, 6)])
    yield Scenario("edits in the middle", setup, lambda: [edited(3, 4, at=(0, 2, 1))])
    yield Scenario("the same again", setup, lambda: [resent(4, 3), resent(5, 2, max_tokens=9)])
    yield Scenario("every length", setup, lambda: [lengths(6, range(90, 116))])
    yield Scenario("stop tokens", setup, lambda: [stopping(7, 10)])
    yield Scenario(
        "a short main session and a sub-agent",
        setup,
        lambda: [growing(8, 6, head=400), growing("sub", 3, head_seed=8, head=400)],
        turns=(0, 0, 1, 1, 0, 1, 0, 0, 0),
    )
    yield Scenario("cache_prompt off now and then", setup, lambda: [uncached(10, 6)])
    yield Scenario("an agent that forgets", setup, lambda: [forgetting(12, 6)])
    yield Scenario(
        "a long main session and a sub-agent",
        Setup(n_ctx=32_768, shape=SLIM),
        lambda: [
            growing(9, 6, head=400, question=2400),
            growing("sub", 3, head_seed=9, head=400),
        ],
        turns=(0, 0, 0, 0, 1, 1, 0, 1, 0),
    )


def moving() -> Iterator[Scenario]:
    """``n_cache_reuse``: what follows a gap moves forward, where the memory allows it."""
    setup = Setup(host_mib=0)
    yield Scenario("moved tokens", setup, lambda: [moved(11, 5)])
    full = replace(setup, shape=GEMMA3, swa_full=True, n_ctx=2048)
    yield Scenario("moved tokens, sliding window", full, lambda: [moved(11, 5), moved(13, 2)])


def faults(cases: Path) -> Iterator[Scenario]:
    """The recorded faults: a clock in the head, keys in another order; and the clean session."""
    setup = Setup(n_ctx=65_536, shape=SLIM)
    for name in ("requests_clean", "requests", "requests_keyorder"):
        sessions = partial(_one, recorded, cases / f"{name}.jsonl")
        yield Scenario(f"recorded: {name}", setup, sessions)


def in_turn() -> Iterator[Scenario]:
    """Two, four and five sessions on one to four slots; host caches of all sizes; split and unified."""
    kinds = [
        *((1, 8192, False), (1, 4, False), (1, 0, True)),
        *((2, 8192, False), (2, 0, False), (2, 1, True), (2, 6, True)),
        *((3, 8192, True), (3, 3, False)),
        *((4, -1, False), (4, 8192, True), (4, 0, False), (4, 2, True)),
    ]
    for slots, host_mib, unified in kinds:
        n_ctx = 6144 if unified else 4096 * slots
        setup = Setup(slots=slots, n_ctx=n_ctx, host_mib=host_mib, unified=unified)
        of = f"{slots} {'unified' if unified else 'split'}, {host_mib} MiB"
        for count, turns in ((2, 3), (4, 3), (5, 3)):
            yield Scenario(f"{count} in turn on {of}", setup, _several(count, turns))


def _several(count: int, turns: int) -> Callable[[], Sequence[Session]]:
    # Two of three share a head; the sessions are of different lengths.
    return lambda: [
        growing(
            (count, number),
            turns,
            head=200,
            question=60 + 40 * number,
            head_seed=(count, number % 3 == 0),
            max_tokens=6,
        )
        for number in range(count)
    ]


def pinned() -> Iterator[Scenario]:
    """Requests that name their slot, also one that does not exist; a small window; other thresholds."""
    setup = Setup(slots=3, n_ctx=3 * 2048, host_mib=4)
    yield Scenario("pinned to slots", setup, lambda: [pinning(20, 12)])
    yield Scenario(
        "prompts beyond the window", setup, lambda: [growing(21, 5, question=350), growing(22, 4)]
    )
    for similarity in (0.0, 0.5):
        eager = replace(setup, similarity=similarity, unified=similarity > 0, n_ctx=6144)
        yield Scenario(f"similarity {similarity}", eager, _several(4, 3))
        yield Scenario(f"pinned, similarity {similarity}", eager, lambda: [pinning(23, 6)])


def corners() -> Iterator[Scenario]:
    """Exactly a tenth, a quarter or half in common; a full window; states that just fit, and do not.

    The template adds nine tokens to a text.
    """
    one = Setup(host_mib=8)
    two = replace(one, slots=2, host_mib=0)
    yield Scenario("a tenth", two, lambda: [lettered((50, 20), (10, 120), (50, 20), (10, 121))])
    halves = ((60, 30), (46, 20), (60, 30), (45, 20), (60, 30))
    yield Scenario("half", one, lambda: [lettered(*halves)])
    quarters = ((60, 70), (-3, 90), (31, 60), (-3, 91))
    yield Scenario("a quarter", replace(one, host_mib=9), lambda: [lettered(*quarters)])
    full = ((2, 499), (2, 500), (2, 499), (2, 600), (3, 40))
    yield Scenario("a full window", replace(one, n_ctx=512), lambda: [lettered(*full)])
    keeping = replace(one, slots=2, n_ctx=2048, unified=True, idle_slots=False)
    sizes = ((100, 1390), (-1, 290), (-2, 190), (-1, 900), (100, 1400), (-1, 910))
    yield Scenario("no room for what comes back", keeping, lambda: [lettered(*sizes)])
    small = replace(one, host_mib=1, shape=SLIM)
    yield Scenario(
        "small rows in a small host cache",
        small,
        lambda: [growing((60, number), 3, head=1350 + 20 * number) for number in range(4)],
    )
    recurrent = replace(one, shape=MAMBA, n_ubatch=64)
    yield Scenario(
        "one token short of a checkpoint", recurrent, lambda: [lettered((100, 20), (57, 30))]
    )


def templates() -> Iterator[Scenario]:
    """A template that strips old reasoning; tools in the prompt that change."""
    setup = Setup(template=THINK, slots=2)
    yield Scenario("stripped reasoning", setup, lambda: [thinking(30, 6), thinking(31, 4)])
    tools = Setup(slots=2, host_mib=6)
    yield Scenario(
        "tools that change", tools, lambda: [growing(32, 4, tools=TOOLS), other_tools(33, 5)]
    )


def rolling() -> Iterator[Scenario]:
    """Sliding-window and recurrent layers: what cannot be rolled back needs a checkpoint."""
    gemma = Setup(shape=GEMMA3, n_ctx=16_384)
    edits = (4, 1, 3, 0, 2)
    yield Scenario("sliding window: growing", gemma, lambda: [growing(40, 6, question=120)])
    yield Scenario(
        "sliding window: edits", gemma, lambda: [edited(41, 5, at=edits, question=150, head=300)]
    )
    yield Scenario("sliding window: tool calls", gemma, lambda: [with_tool_calls(42, 5)])
    yield Scenario("sliding window: the same again", gemma, lambda: [resent(43, 3, words=400)])
    more = [
        ("small steps", replace(gemma, checkpoint_min_step=100, n_ubatch=64, n_batch=300)),
        ("three checkpoints", replace(gemma, checkpoints=3, checkpoint_min_step=0)),
        ("no checkpoints", replace(gemma, checkpoints=0)),
        ("plain text", replace(gemma, plain_text=True)),
        ("swa_full", replace(gemma, swa_full=True, slots=2, host_mib=8)),
        ("two unified", replace(gemma, slots=2, unified=True, n_ubatch=128)),
        ("three unified, no host", replace(gemma, slots=3, unified=True, host_mib=0)),
        ("two split, 1 MiB", replace(gemma, slots=2, host_mib=1)),
        ("recurrent", replace(gemma, shape=MAMBA, slots=2, host_mib=1)),
    ]
    for name, setup in more:
        yield Scenario(
            f"rolling, {name}",
            setup,
            lambda: [
                edited(44, 4, at=(2, 0, 1), question=100, head=100),
                growing(45, 4, question=150),
                growing(46, 3, question=30, head_seed=45),
            ],
        )


def at_once(count: int = 8) -> Iterator[Scenario]:
    """Four at a time, on as many slots and on fewer."""
    kinds = [(4, 8192, False), (4, 8192, True), (4, 0, False), (3, 8192, True)]
    for slots, host_mib, unified in kinds:
        setup = Setup(slots=slots, n_ctx=16_384, host_mib=host_mib, unified=unified)
        yield Scenario(
            f"four at a time on {slots} {'unified' if unified else 'split'}, {host_mib} MiB",
            setup,
            lambda: [
                growing(
                    (50, number),
                    4,
                    head=150,
                    question=60,
                    max_tokens=120 + 25 * number,
                    head_seed=number % 3,
                )
                for number in range(count)
            ],
            at_once=4,
        )


def drawn(seeds: Iterable[int], requests: int = 25) -> Iterator[Scenario]:
    """Random requests on servers with random settings: every third of a rolling model, every fifth moves tokens."""
    for seed in seeds:
        draw = random.Random(seed)
        rolling = seed % 3 == 0
        setup = wild.rolling_setup(draw) if rolling else wild.setup(draw)
        moves = seed % 5 == 4 and setup.shape is not MAMBA
        sessions = partial(_one, partial(wild.requests, moves=moves), draw, requests)
        yield Scenario(f"drawn from seed {seed}", setup, sessions)


def _one(session: Callable[..., Session], *arguments: Any) -> Sequence[Session]:
    return [session(*arguments)]


def lengths(seed: object, words: Iterable[int]) -> Session:
    """Prompts of one token more each, all of which begin alike, each sent twice."""
    for count in words:
        for _ in range(2):
            yield body([{"role": "user", "content": "a" + " a" * count}], max_tokens=2)
    yield body([{"role": "user", "content": text(5, seed)}])


def lettered(*counts: tuple[int, int]) -> Session:
    """So many a and then so many b, each one token; fewer than none begin otherwise."""
    for first, second in counts:
        start = "a" + " a" * first if first >= 0 else "xyz"[first + 3]
        yield body([{"role": "user", "content": start + " b" * second}])


def stopping(seed: object, turns: int) -> Session:
    """Answers that end by the model's own stop token, or by a text to stop at, sooner or later."""
    history = [{"role": "system", "content": text(40, seed)}]
    for turn in range(turns):
        history.append({"role": "user", "content": text(12, (seed, turn))})
        bias = [[wild.EOS, 100 if turn % 3 == 0 else 4 + turn]]
        stop = [" a", "e", "."] if turn % 2 else None
        request = body(history, max_tokens=24, temperature=1, seed=turn, logit_bias=bias)
        history.append((yield {**request, "stop": stop} if stop else request))


def uncached(seed: object, turns: int) -> Session:
    """Every other request does not read the cache; it fills it all the same."""
    history = [{"role": "system", "content": text(100, seed)}]
    for turn in range(turns):
        history.append({"role": "user", "content": text(20, (seed, turn))})
        history.append((yield body(history, max_tokens=4, cache_prompt=turn % 2 == 0)))


def moved(seed: object, turns: int) -> Session:
    """Old messages go, and what follows them moves forward (``n_cache_reuse``)."""
    history = [{"role": "system", "content": text(60, seed)}]
    for turn in range(turns + 3):
        history.append({"role": "user", "content": text(60, (seed, turn))})
        if turn >= 3:
            del history[1:3]
        history.append((yield body(history, max_tokens=4, n_cache_reuse=(0, 16, 1000)[turn % 3])))


def forgetting(seed: object, turns: int) -> Session:
    """A sliding window of messages: all but the head and the last three go."""
    history = [{"role": "system", "content": text(60, seed)}]
    for turn in range(turns):
        history.append({"role": "user", "content": text(50, (seed, turn))})
        history[1:-3] = []
        history.append((yield body(history, max_tokens=4)))


def pinning(seed: object, turns: int) -> Session:
    """Two histories in turn, each request for another slot; 7 is beyond the last one."""
    histories = [[{"role": "system", "content": text(150, (seed, half))}] for half in range(2)]
    slots = (0, 1, -1, 0, 2, 7, 1, 1, 7, 0, 2, -1)
    for turn in range(turns):
        history = histories[turn % 2]
        history.append({"role": "user", "content": text(40, (seed, turn))})
        history.append((yield body(history, max_tokens=3, id_slot=slots[turn % len(slots)])))


def thinking(seed: object, turns: int) -> Session:
    """Answers with reasoning in them, as the agent keeps them; some turns have a second step."""
    history = [{"role": "system", "content": text(60, seed)}]
    for turn in range(turns):
        history.append({"role": "user", "content": text(20, (seed, turn))})
        for step in range(1 + turn % 2):
            yield body(history, max_tokens=2)
            thought = f"<think>\n{text(30, (seed, turn, step))}\n</think>\n\n{text(8, turn)}"
            history.append({"role": "assistant", "content": thought})
            if step < turn % 2:
                history.append({"role": "tool", "content": text(25, (seed, turn))})


def other_tools(seed: object, turns: int) -> Session:
    """Tools come, go and change their order."""
    history = [{"role": "user", "content": text(200, seed)}]
    for turn in range(turns):
        tools = [list(TOOLS), list(TOOLS[::-1]), None, list(TOOLS[:1])][turn % 4]
        history.append((yield body(history, max_tokens=3, tools=tools)))
        history.append({"role": "user", "content": text(20, (seed, turn))})


def scenarios(cases: Path | None, *, seeds: Iterable[int] = range(12)) -> Iterator[Scenario]:
    """All of them, one after the other ones first; those recorded only where ``cases`` has them."""
    yield from one_slot()
    yield from moving()
    if cases:
        yield from faults(cases)
    yield from in_turn()
    yield from pinned()
    yield from corners()
    yield from templates()
    yield from rolling()
    yield from drawn(seeds)
    yield from at_once()
