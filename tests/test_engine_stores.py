"""Does a conversation go on where it was, after a restart, in another process, or from little memory?"""

from __future__ import annotations

import gc
import itertools
import json
import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kvagent import (
    Bypassed,
    Edited,
    Engine,
    Event,
    Policy,
    PrefixBroken,
    TurnFinished,
    WindowFilling,
    session,
)
from kvagent.entry import Entry, Head
from kvagent.ledger import Ledger, Tree
from kvagent.stores.sqlite import SQLiteStore
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
from tests.wire import Message, Wire, call, kept, result, say, tool

rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow],
)


@contextmanager
def new_file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "ledger.sqlite3"


def one_request(exchange: Exchange, store: Path) -> bytes:
    """What goes out from an engine that lives for this request alone."""
    engine = Engine(policy(), store=store)
    try:
        return send(exchange, engine)
    finally:
        engine.store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite3"


def wire(store: Path | None, **fields: Any) -> Wire:
    """A new process, as it were."""
    events: list[Event] = []
    engine = Engine(
        Policy(probe=False, **fields.pop("policy", {})),
        store=store,
        on_event=events.append,
        **fields,
    )
    new = Wire(engine)
    new.events = events
    return new


def system(text: str) -> Message:
    return say("system", text)


HELLO = say("user", "Hello, what is in the log?")
LONG = "\n".join(f"{n:05} request served in {n % 97} ms by worker {n % 13}" for n in range(2_000))


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
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PYTHONHASHSEED": "815", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [raw.encode() for raw in json.loads(done.stdout)]


# --- what each stage leaves to the next process


def test_the_head_stays_pinned(path: Path) -> None:
    tools = [tool("read", path={"type": "string"}), tool("grep", pattern={"type": "string"})]
    head = say("system", "You are careful.")
    before, after = wire(path), wire(path)
    before.send([head, HELLO], say("assistant", "I will look."), tools=tools)
    after.send(
        [
            {"content": "You are careful.", "role": "system"},
            HELLO,
            say("assistant", "I will look."),
            say("user", "Go on."),
        ],
        tools=tools[::-1],
    )
    assert kept(before.bodies[0], after.bodies[0])
    assert not after.of(PrefixBroken)


def test_a_note_is_told_once(path: Path) -> None:
    history = [HELLO]
    bodies = []
    for number in range(5):
        process = wire(path)
        # The clock ticks before every other request.
        time = f"Current time: 2026-11-30 12:00:0{number // 2}"
        process.send([system(f"You are careful.\n{time}"), *history], say("assistant", "ok"))
        bodies += process.bodies
        history += [say("assistant", "ok"), say("user", f"next {number}")]
    assert all(kept(*pair) for pair in itertools.pairwise(bodies))
    notes = [json.dumps(m).count("[note]") for m in bodies[-1]["messages"]]
    assert notes == [0, 1, 0, 0, 0, 1, 0, 0, 0, 1]


def test_a_place_that_changes_gets_a_placeholder_in_later_conversations(path: Path) -> None:
    def head(run: int) -> Message:
        return system(f"You are careful. This is run 0000000{run}-0000-4000-8000-000000000000.")

    first = wire(path).send([head(1), HELLO])
    wire(path).send([head(2), say("user", "Another question")])
    third = wire(path).send([head(3), say("user", "A third question")])
    fourth = wire(path).send([head(4), say("user", "A fourth question")])
    assert "run 00000001" in first[0]["content"]
    assert third[0] == fourth[0]
    assert "[see newest note]" in third[0]["content"]


def test_a_reply_is_echoed_as_generated(path: Path) -> None:
    generated = call("c1", arguments='{"path":  "a.py"}')
    wire(path).send([HELLO], generated)
    parsed = call("c1", arguments='{"path": "a.py"}')
    sent = wire(path).send([HELLO, parsed, result("c1", "text")])
    assert sent[1]["tool_calls"] == generated["tool_calls"]


def test_a_shortened_result_stays_as_it_was_and_can_be_had_back(path: Path) -> None:
    history = [HELLO, call("c1"), result("c1", LONG)]
    first = wire(path).send(history, say("assistant", "I see."))
    after = wire(path)
    second = after.send([*history, say("assistant", "I see."), say("user", "More.")])
    assert second[: len(first)] == first
    assert len(first[2]["content"]) < len(LONG) / 4
    handle = first[2]["content"].split("kept as ")[1].split("]")[0]
    assert after.engine.recall(handle) == LONG
    assert not after.of(PrefixBroken)
    assert not after.of(Edited), "nothing was done to what had been sent before"


def test_text_that_moves_on_stays_where_it_was(path: Path) -> None:
    reminder = "\n\n<system-reminder>Keep the tests green, and be brief.</system-reminder>"
    first = wire(path).send([say("user", "Mend the parser." + reminder)], say("assistant", "Done."))
    moved = [
        say("user", "Mend the parser."),
        say("assistant", "Done."),
        say("user", "And the lexer?" + reminder),
    ]
    second = wire(path).send(moved, say("assistant", "Done as well."))
    assert second[:1] == first
    third = wire(path).send(
        [
            *moved[:2],
            say("user", "And the lexer?"),
            say("assistant", "Done as well."),
            say("user", "Thanks." + reminder),
        ]
    )
    assert third[:3] == second


def test_growth_goes_on(path: Path) -> None:
    """Turns are numbered, and the window is warned of, once in all."""
    history = [HELLO]
    finished, warned = [], []
    for number in range(4):
        process = wire(path, policy={"window": 1_000})
        usage = {"prompt_tokens": 500 + 100 * number, "completion_tokens": 10}
        process.send(history, say("assistant", f"answer {number}"), usage=usage)
        history += [say("assistant", f"answer {number}"), say("user", f"question {number}")]
        finished += process.of(TurnFinished)
        warned += process.of(WindowFilling)
    assert [event.turn for event in finished] == [1, 2, 3, 4]
    assert [event.growth_per_turn for event in finished] == [None, 100, 100, 100]
    assert [event.share for event in warned] == [0.7]


class Counting(SQLiteStore):
    """Counts what is asked of it."""

    gets = 0

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        self.gets += 1
        return super().get(namespace, key)


def test_many_conversations_with_one_beginning_cost_few_lookups(path: Path) -> None:
    """A job that always begins with the same words, at another time."""
    store = Counting(path)
    used = Wire(Engine(Policy(probe=False), store=store))
    asked = []
    for number in range(150):
        clock = system(f"You are careful.\nCurrent time: 12:{number // 60:02}:{number % 60:02}")
        history = [HELLO, call(f"c{number}"), result(f"c{number}", "nothing")]
        used.send([clock, HELLO], history[1])
        before = store.gets
        # Written anew, so that the body is read whole.
        used.send([dict(reversed(clock.items())), *history], say("assistant", "ok"))
        asked.append(store.gets - before)
    assert asked[-1] <= asked[0] + 2
    assert not used.of(PrefixBroken)


# --- stores that fail


def full(path: Path) -> SQLiteStore:
    store = SQLiteStore(path)
    store.add("", b"k", b"v")
    with store._writer as connection:
        connection.execute(f"PRAGMA max_page_count = {1}")
    return store


def corrupt(path: Path) -> Path:
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8_000)
    return path


def no_database(path: Path) -> Path:
    path.write_text("A text that somebody keeps here. " * 100)
    return path


def of_another_version(path: Path) -> Path:
    store = SQLiteStore(path)
    store.add("", b"k", b"v")
    store.close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 99")
    return path


def a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def below_a_file(path: Path) -> Path:
    path.write_text("no folder")
    return path / "ledger.sqlite3"


@pytest.mark.parametrize(
    "broken", [full, corrupt, no_database, of_another_version, a_folder, below_a_file]
)
def test_a_store_that_fails_is_warned_of_once_and_harms_no_request(
    broken: Callable[[Path], Any], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exchanges = list(Agent(Traits(clock=True, tools=2), seed=3).exchanges(map(turn, range(8))))
    events: list[Event] = []
    with caplog.at_level(logging.WARNING):
        used = Engine(policy(), store=broken(path), on_event=events.append)
        assert play(exchanges, used) == play(exchanges, Engine(policy()))
    assert len([r for r in caplog.records if r.name.startswith("kvagent")]) == 1
    assert not [event for event in events if isinstance(event, Bypassed)]


def turn(number: int) -> Step:
    return Step("turn", what=number, form=number, ticks=True)


def test_a_file_that_may_only_be_read_is_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exchanges = list(Agent(Traits(clock=True), seed=3).exchanges(map(turn, range(8))))
    first = Engine(policy(), store=path)
    sent = play(exchanges[:4], first)
    first.store.close()
    store = SQLiteStore(path)
    with store._writer as connection:
        connection.execute("PRAGMA query_only = ON")
    with caplog.at_level(logging.WARNING):
        sent += play(exchanges[4:], Engine(policy(), store=store))
    assert sent == play(exchanges, Engine(policy()))
    assert len([r for r in caplog.records if r.name.startswith("kvagent")]) == 1


def test_a_file_that_breaks_in_mid_session(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exchanges = list(Agent(Traits(clock=True), seed=3).exchanges(map(turn, range(8))))
    used = Engine(policy(), store=path)
    sent = play(exchanges[:4], used)
    used.store.close()  # and all that is asked of it fails
    with caplog.at_level(logging.WARNING):
        sent += play(exchanges[4:], used)
    assert sent == play(exchanges, Engine(policy()))


def test_a_store_that_forgets_costs_a_prefix_and_no_request(path: Path) -> None:
    """Records may be gone one by one: a full store drops the oldest."""
    exchanges = list(Agent(Traits(clock=True, tools=2), seed=3).exchanges(map(turn, range(8))))
    play(exchanges[:6], Engine(policy(), store=path))
    with closing(sqlite3.connect(path)) as file:
        count = file.execute("SELECT count(*) FROM entry").fetchone()[0]
    for gone in range(0, count, 3):
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("DELETE FROM entry WHERE id % ? = 0", [gone + 1])
        events: list[Event] = []
        used = Engine(policy(), store=path, on_event=events.append)
        for exchange, raw in zip(exchanges[6:], play(exchanges[6:], used), strict=True):
            came, went = json.loads(exchange.body)["messages"], json.loads(raw)["messages"]
            assert [m["role"] for m in came] == [m["role"] for m in went]
        assert not [event for event in events if isinstance(event, Bypassed)]
        used.store.close()


# --- namespaces


def test_what_one_namespace_keeps_another_cannot_recall(path: Path) -> None:
    one, two = wire(path, namespace="one"), wire(path, namespace="two")
    sent = one.send([HELLO, call("c1"), result("c1", LONG)])
    handle = sent[2]["content"].split("kept as ")[1].split("]")[0]
    assert one.engine.recall(handle) == LONG
    assert two.engine.recall(handle, namespace="one") == LONG
    with session("s", namespace="one"):
        assert two.engine.recall(handle) == LONG
    with pytest.raises(KeyError, match="another namespace"):
        two.engine.recall(handle)


@pytest.mark.parametrize("durable", [True, False])
def test_a_session_names_the_namespace(path: Path, durable: bool) -> None:
    """Two tenants say the very same words; each has its own id."""
    used = wire(path if durable else None)
    histories = {"one": [HELLO], "two": [HELLO]}
    ids = {
        "one": "11111111-1111-4111-8111-111111111111",
        "two": "22222222-2222-4222-8222-222222222222",
    }
    for number in range(4):
        for tenant, history in histories.items():
            with session("ticket", namespace=tenant):
                sent = used.send(
                    [system(f"Account {ids[tenant]}"), *history], say("assistant", "ok")
                )
            text = json.dumps(sent)
            assert ids[tenant] in text
            assert not any(other in text for name, other in ids.items() if name != tenant)
            assert "[note]" not in text, "an id that never changed within its namespace stays"
            history += [say("assistant", "ok"), say("user", f"next {number}")]
    assert not used.of(PrefixBroken)


def test_a_clock_seen_in_one_namespace_is_no_first_value_in_another(path: Path) -> None:
    for tenant, build in (("one", "17ab99c"), ("two", "93cd11e"), ("two", "93cd11e")):
        sent = wire(path, namespace=tenant).send([system(f"Commit {build}."), HELLO])
        assert sent[0]["content"] == f"Commit {build}."


def test_sessions_of_one_namespace_are_apart() -> None:
    used = wire(None)
    for number in range(2):
        for name in ("first", "second"):
            run = "1111111" if name == "first" else "2222222"
            ticked = f"{run}{number}-0000-4000-8000-000000000000"
            history = [HELLO, say("assistant", "ok"), say("user", "next")][: 1 + 2 * number]
            sent = used.send(
                [system(f"Run {ticked}"), *history], say("assistant", "ok"), session=name
            )
            assert ("2222222" if name == "first" else "1111111") not in json.dumps(sent)
    assert kept(used.bodies[0], used.bodies[2])
    assert kept(used.bodies[1], used.bodies[3])


# --- memory


def entries(ledger: Ledger) -> Iterator[Entry]:
    waiting = [tree.root for tree in ledger._trees.values()]
    while waiting:
        for siblings in waiting.pop().children.values():
            yield from siblings
            waiting += siblings


def weight(engine: Engine) -> int:
    kept = list(entries(engine.ledger))
    heads = {id(entry.head): entry.head.weight for entry in kept if entry.head}
    return sum(entry.weight for entry in kept) + sum(heads.values())


@rule
@given(interleaved(agents=3))
def test_little_memory_breaks_nothing(exchanges: list[Exchange]) -> None:
    events: list[Event] = []
    used = Engine(policy(memory_bytes=6_000), on_event=events.append)
    for exchange in exchanges:
        raw = send(exchange, used)
        assert used.ledger.size == weight(used)
        came, went = json.loads(exchange.body)["messages"], json.loads(raw)["messages"]
        assert [m["role"] for m in came] == [m["role"] for m in went]
    assert not [event for event in events if isinstance(event, Bypassed)]


@rule
@given(interleaved(agents=3))
def test_little_memory_costs_nothing_with_a_store(exchanges: list[Exchange]) -> None:
    with new_file() as path:
        used = Engine(policy(memory_bytes=6_000), store=path)
        sent = play(exchanges, used)
        assert used.ledger.size == weight(used)
        used.store.close()
    assert sent == play(exchanges, Engine(policy()))


def test_ten_thousand_conversations_are_not_all_remembered() -> None:
    limit = 1 << 20
    used = Engine(Policy(probe=False, memory_bytes=limit, evict=None))
    for number in range(10_000):
        body = {
            "messages": [system(f"You are agent {number % 500}."), say("user", f"hello {number}")]
        }
        used.rewrite(json.dumps(body).encode())
        if number % 10 == 0:  # with a name that belongs to a customer
            with session("s", namespace=f"tenant {number}"):
                used.rewrite(json.dumps(body).encode())
    assert used.ledger.size <= limit
    assert weight(used) == used.ledger.size
    gc.collect()
    alive = [type(thing) for thing in gc.get_objects()]
    assert alive.count(Entry) < 2_000
    assert alive.count(Tree) < 500
    assert alive.count(Head) < 1_000


def test_bodies_to_go_on_from_are_part_of_the_memory() -> None:
    used = Engine(Policy(probe=False, memory_bytes=1 << 20, evict=None))
    for number in range(100):
        body = {"messages": [say("user", f"{number} " * 10_000)]}
        used.rewrite(json.dumps(body, separators=(",", ":")).encode())
    kept = sum(len(r.came) + len(r.went) for r in used._planner.resumables._records.values())
    assert 0 < kept == used._planner.resumables._size <= 1 << 18
