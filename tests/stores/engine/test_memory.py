"""Does a conversation go on from little memory, and is no more used?"""

from __future__ import annotations

import gc
import json

from hypothesis import given

from kvagent import Bypassed, Engine, Event, Policy, session
from kvagent.entry import Entry, Head
from kvagent.ledger import Tree
from tests.stores.engine.processes import new_file, system
from tests.stores.engine.remembered import weight
from tests.stores.engine.rules import rule
from tests.strategies import Exchange, interleaved, play, policy, send
from tests.wire import say


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
