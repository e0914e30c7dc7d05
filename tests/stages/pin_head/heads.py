"""What does an agent say whose head changes, turn by turn, and what of it was sent?"""

from __future__ import annotations

from typing import Any

from kvagent import PrefixBroken
from tests.wire import Message, Wire, kept, say, tool

LONG = "This is a reply that is long enough to be told from what any other server may have said."


def system(content: Any) -> Message:
    return say("system", content)


def user(content: Any) -> Message:
    return say("user", content)


def chat(heads: list[list[Message]], wire: Wire | None = None, text: str = LONG) -> Wire:
    """One conversation, a turn a head."""
    wire = wire or Wire()
    history: list[Message] = [user("Question 0?")]
    for number, head in enumerate(heads, 1):
        reply = say("assistant", f"{number}: {text}")
        wire.send([*head, *history], reply)
        history += [reply, user(f"Question {number}?")]
    return wire


def holds(wire: Wire) -> bool:
    pairs = zip(wire.bodies, wire.bodies[1:], strict=False)
    return all(kept(before, after) for before, after in pairs)


def head_of(wire: Wire, request: int = -1) -> str:
    text: str = wire.bodies[request]["messages"][0]["content"]
    return text


def newest(wire: Wire, request: int = -1) -> str:
    text: str = wire.bodies[request]["messages"][-1]["content"]
    return text


def breaks(wire: Wire) -> list[tuple[str, int]]:
    return [(event.cause, event.index) for event in wire.of(PrefixBroken)]


def clock(text: str) -> list[Message]:
    return [system(f"You help.\nCurrent time: {text}\nBe brief.")]


READ, LIST = tool("read", path={"type": "string"}), tool("list", folder={"type": "string"})


def tools_sent(*requests: list[Message] | None, **policy: Any) -> Wire:
    wire = Wire(**policy)
    history = [system("You help."), user("Question?")]
    for number, tools in enumerate(requests):
        reply = say("assistant", f"{number}: {LONG}")
        wire.send(history, reply, tools=tools)
        history += [reply, user(f"Question {number}?")]
    return wire
