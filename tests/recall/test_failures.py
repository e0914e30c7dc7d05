"""What does the agent get if something fails on the way to the answer?"""

from __future__ import annotations

import pytest

from kvagent import Bypassed
from kvagent.events import TurnFinished
from kvagent.recall import RECALL
from tests.recall.asking import FINAL, TOOLS, Model, asks, asks_all, history, recalling
from tests.scripted import Served, refused
from tests.wire import kept, say


def test_a_further_request_that_fails_is_an_error_of_the_server() -> None:
    scripted = recalling()
    failed = refused("out of order", 500)
    served = scripted.send(history(), Model(asks_all, failed), tools=TOOLS)
    assert (served.status, served.error) == (500, failed.error)
    assert len(scripted.of(TurnFinished)) == 1, "the server has the prompt all the same"
    scripted.send(history(), Model(asks_all, FINAL), tools=TOOLS)
    scripted.send([*history(), FINAL, say("user", "And?")], tools=TOOLS)
    assert kept(scripted.bodies[-2], scripted.bodies[-1])


def test_a_reply_that_broke_off_is_not_answered() -> None:
    scripted = recalling()
    handle = "r0123456789ab"
    broken = Served(asks(handle), stream_error={"message": "gone"})
    assert scripted.send(history(), broken, tools=TOOLS) is broken
    assert len(scripted.bodies) == 1


def test_an_error_inside_kvagent_leaves_the_call_to_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr("kvagent.engine.exchange", fail)
    scripted = recalling()
    served = scripted.send(history(), Model(asks_all), tools=TOOLS)
    assert served.reply is not None
    assert served.reply["tool_calls"][0]["function"]["name"] == RECALL
    assert len(scripted.of(Bypassed)) == 1
