"""What does each stage leave to the next process?"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from kvagent import Edited, Engine, Policy, PrefixBroken, TurnFinished, WindowFilling
from kvagent.stores.sqlite import SQLiteStore
from tests.stores.engine.processes import HELLO, LONG, system, wire
from tests.wire import Message, Wire, call, kept, result, say, tool


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
