"""Does what was told stand while room is made around it, with every request valid?"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvagent import Bypassed, Edited, Engine, Event, Policy, PrefixBroken, Recall
from kvagent.recall import part_of
from tests.recall.asking import FINAL, LONG, TOOLS, Model, asks, handle_in, history, told
from tests.scripted import Scripted, tokens_of
from tests.wire import Message, call, result, say


def test_clearing_leaves_what_was_recalled_alone() -> None:
    scripted = Scripted(recall=Recall(answer="agent"), window=20_000, compact=None)
    scripted.send(history(), FINAL, tools=TOOLS)
    asked = asks(handle_in(scripted.last), "ask-1", lines="1-100")
    messages = [*history(), asked, result("ask-1", part_of(LONG, "1-100"))]
    for n in range(24):
        text = "\n".join(f"{n}.{at} {at * n * 7919 % 99_991}" for at in range(140))
        messages += [call(f"c{n}", "read", {"path": f"{n}.py"}), result(f"c{n}", text)]
        scripted.send(messages, tools=TOOLS)
    assert [edit for edit in scripted.of(Edited) if edit.stage == "clear"]
    assert scripted.last[5] == messages[5]


def test_clearing_leaves_what_was_told_within_a_turn_alone() -> None:
    """The agent's text around it may be cleared."""
    scripted = Scripted(recall=Recall(), window=8_000, compact=None)
    long = say(
        "assistant", "So.\n" + "\n".join(f"{n}: seen {n * 7919 % 99_991}" for n in range(150))
    )
    model = Model(lambda handle: asks(handle, lines="1-40"), long)
    scripted.send(history(), model, tools=TOOLS)
    messages = [*history(), long, say("user", "Go on.")]
    for n in range(12):
        text = "\n".join(f"{n}.{at} {at * n * 7919 % 99_991}" for at in range(100))
        messages += [call(f"c{n}", "read", {"path": f"{n}.py"}), result(f"c{n}", text)]
        scripted.send(messages, tools=TOOLS)
    assert [edit for edit in scripted.of(Edited) if edit.stage == "clear"]
    assert len(str(scripted.last[6]["content"])) < len(long["content"])
    assert scripted.last[4:6] == scripted.bodies[1]["messages"][4:6]
    assert told(scripted) == [part_of(LONG, "1-40")]


def faults(messages: list[Message]) -> list[object]:
    """Calls without a result behind them, and results without their call."""
    found: list[object] = []
    waiting: set[object] = set()
    for message in messages:
        if message["role"] == "tool":
            name = message["tool_call_id"]
            found += [] if name in waiting else [name]
            waiting.discard(name)
        else:
            found += waiting
            waiting = {one["id"] for one in message.get("tool_calls") or ()}
    return found + sorted(waiting, key=str)


@pytest.mark.parametrize("durable", [False, True])
def test_in_a_small_window_every_request_is_valid_and_fits(durable: bool, tmp_path: Path) -> None:
    policy = Policy(probe=False, recall=Recall(max_tokens=800), window=5_000)
    events: list[Event] = []
    store = tmp_path / "store.sqlite" if durable else None
    scripted = Scripted(Engine(policy, store=store, on_event=events.append))
    messages = history()
    scripted.send(messages, say("assistant", "So."), tools=TOOLS)
    handle = handle_in(scripted.last)
    messages += [say("assistant", "So."), say("user", "Go on.")]
    for turn in range(20):
        final = call(f"c{turn}", "read", {"path": f"{turn}.py"}, f"Now {turn}.")
        asked = asks(handle, f"ask-{turn}", lines=f"{turn * 20 + 1}-{turn * 20 + 30}")
        scripted.send(messages, Model(asked, final), tools=TOOLS)
        text = "\n".join(f"{turn}.{at} {at * turn * 7919 % 99_991}" for at in range(40))
        messages += [final, result(f"c{turn}", text)]
    assert {event.stage for event in events if isinstance(event, Edited)} >= {"compact"}
    assert not [event for event in events if isinstance(event, PrefixBroken | Bypassed)]
    assert [faults(body["messages"]) for body in scripted.bodies] == [[]] * len(scripted.bodies)
    assert max(map(tokens_of, scripted.bodies)) < 5_000
