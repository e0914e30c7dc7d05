"""Does a call under another head leave the conversation alone whose messages it bears?"""

from __future__ import annotations

import json

from kvagent.volatile import NOTE
from tests.stages.pin_head.heads import LONG, breaks, system, user
from tests.wire import Message, Wire, call, kept, result, say, tool


def test_a_summary_under_another_head_leaves_the_conversation_alone() -> None:
    tools = [tool("read"), tool("write")]
    wire = Wire()

    def main(date: str) -> Message:
        return system(f"You are the main agent, begun 2026-{date}.")

    history = [user("Do it.")]
    wire.send([main("01-01"), *history], call("call-1"), tools=tools)
    history += [call("call-1"), result("call-1", "Done.")]
    before = wire.send([main("01-02"), *history], say("assistant", LONG), tools=tools)
    history += [say("assistant", LONG)]
    summary = [system("You summarise. Today is Monday."), *history, user("Sum up.")]
    wire.send(summary, say("assistant", "It was done."))
    assert breaks(wire) == [("system_changed", 0)]
    wire.events.clear()
    wire.send([main("01-02"), *history, user("Go on.")], tools=tools[::-1])
    assert kept({**wire.bodies[1], "messages": before}, wire.bodies[-1])
    assert breaks(wire) == []
    assert "Today" not in json.dumps(wire.bodies[-1])


def test_a_note_of_a_side_call_does_not_reach_the_conversation() -> None:
    wire = Wire()
    history = [system("You are the main agent."), user("Do it.")]
    wire.send(history, call("call-1"))
    history += [call("call-1"), result("call-1", "Done.")]
    judge = system("You judge what others do. Today is Monday.")
    assert NOTE in json.dumps(wire.send([judge, *history[1:]], say("assistant", "Fine.")))
    sent = wire.send(history, say("assistant", LONG))
    assert sent == history
    assert kept(wire.bodies[0], wire.bodies[2])
