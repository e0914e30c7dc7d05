"""Which calls are left to the agent to answer?"""

from __future__ import annotations

import json

from kvagent import Engine, Policy, Recall
from kvagent.chat import ChatReply
from kvagent.flow import Answer, Call, drive
from kvagent.recall import TOOL
from tests.recall.asking import FINAL, LONG, TOOLS, asks, handle_in, history, recalling
from tests.wire import call, compact, result


def test_an_ordinary_call_goes_to_the_agent() -> None:
    scripted = recalling()
    ordinary = call("call-2", "read", {"path": "a.py"})
    assert scripted.send(history(), ordinary, tools=TOOLS).reply == ordinary
    assert len(scripted.bodies) == 1


def test_several_choices_are_the_agents() -> None:
    engine = Engine(Policy(probe=False, recall=Recall()))
    body = compact({"messages": history(), "model": "m", "tools": TOOLS, "n": 2}).encode()

    def answer(call: Call) -> tuple[Answer, bytes]:
        return Answer(200), call.body

    sent, settle = drive(engine.turn(body), answer)
    asked = asks(handle_in(json.loads(sent)["messages"]))
    assert settle(ChatReply((asked, dict(FINAL)), {}, complete=True), None) is None


def test_the_agent_may_answer_itself() -> None:
    scripted = recalling(answer="agent")
    scripted.send(history(), FINAL, tools=TOOLS)
    asked = asks(handle_in(scripted.last), id="ask-1")
    served = scripted.send(history(), asked, tools=TOOLS)
    assert served.reply == asked
    assert scripted.bodies[0]["tools"][-1] == TOOL
    assert scripted.withheld == [frozenset(), frozenset()]
    text = scripted.engine.recall(handle_in(scripted.last))
    assert text == LONG
    scripted.send([*history(), asked, result("ask-1", text)], tools=TOOLS)
    assert scripted.last[-1] == result("ask-1", LONG), "what was asked for is not shortened"
