"""Is a model answered that asks several times, for several things at once, or without end?"""

from __future__ import annotations

from kvagent.recall import part_of
from tests.recall.asking import FINAL, LONG, TOOLS, Model, asks, history, recalling, told
from tests.wire import Message, call, kept, result, say


def test_several_questions_one_after_the_other() -> None:
    scripted = recalling()
    model = Model(
        lambda handle: asks(handle, "ask-1", lines="1-2"),
        lambda handle: asks(handle, "ask-2", query="job 7919 "),
        FINAL,
    )
    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    assert all(kept(a, b) for a, b in zip(scripted.bodies, scripted.bodies[1:], strict=False))
    assert told(scripted) == [part_of(LONG, "1-2"), part_of(LONG, query="job 7919 ")]
    scripted.send([*history(), FINAL, say("user", "And?")], tools=TOOLS)
    assert kept(scripted.bodies[2], scripted.bodies[3])


def test_whoever_asks_on_and_on_is_told_to_stop() -> None:
    scripted = recalling(max_calls=2)
    asking = [lambda handle, n=n: asks(handle, f"ask-{n}", lines=f"{n}") for n in range(1, 9)]
    served = scripted.send(history(), Model(*asking), tools=TOOLS)
    assert served.reply is not None, "what it asks then is the agent's business"
    assert served.reply["tool_calls"][0]["id"] == "ask-4"
    assert told(scripted)[:2] == [part_of(LONG, "1"), part_of(LONG, "2")]
    assert "asked often enough" in told(scripted)[2]
    scripted = recalling(max_calls=2)
    assert scripted.send(history(), Model(*asking[:3], FINAL), tools=TOOLS).reply == FINAL


def test_other_calls_beside_it_are_to_be_made_again() -> None:
    scripted = recalling()

    def both(handle: str) -> Message:
        asked = asks(handle, lines="5")
        asked["tool_calls"] += call("call-2", "read", {"path": "a.py"})["tool_calls"]
        return asked

    final = call("call-3", "read", {"path": "a.py"})
    assert scripted.send(history(), Model(both, final), tools=TOOLS).reply == final
    assert [one["id"] for one in scripted.last[-2]["tool_calls"]] == ["ask-1"]
    scripted.send([*history(), final, result("call-3", "x = 1")], tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])


def test_two_questions_at_once() -> None:
    scripted = recalling()

    def both(handle: str) -> Message:
        asked = asks(handle, "ask-1", lines="5")
        asked["tool_calls"] += asks(handle, "ask-2", lines="6-7")["tool_calls"]
        return asked

    assert scripted.send(history(), Model(both, FINAL), tools=TOOLS).reply == FINAL
    assert told(scripted) == [part_of(LONG, "5"), part_of(LONG, "6-7")]
