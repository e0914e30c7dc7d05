"""When is the tool offered, and where does it stand?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent import PrefixBroken, Recall
from kvagent.recall import RECALL, TOOL
from tests.recall.asking import FINAL, TOOLS, asks, history, recalling
from tests.scripted import Scripted
from tests.wire import kept, say, tool


def test_the_tool_stands_last_from_the_first_turn_on() -> None:
    scripted = recalling()
    scripted.send([say("user", "Hello.")], FINAL, tools=TOOLS)
    scripted.send([say("user", "Hello."), FINAL, say("user", "And?")], FINAL, tools=TOOLS)
    for body in scripted.bodies:
        assert body["tools"] == [*TOOLS, TOOL]
    assert kept(*scripted.bodies)
    assert not scripted.of(PrefixBroken)


@pytest.mark.parametrize("tools", [{}, {"tools": []}, {"tools": None}])
def test_without_tools_of_its_own_an_agent_gets_none(tools: dict[str, Any]) -> None:
    scripted = recalling()
    scripted.send([say("user", "Hello.")], FINAL, **tools)
    assert scripted.bodies == [{"messages": [say("user", "Hello.")], "model": "m", **tools}]


@pytest.mark.parametrize("mode", ["safe", "observe"])
def test_only_full_mode_offers_it(mode: str) -> None:
    scripted = Scripted(recall=Recall(), mode=mode)
    scripted.send(history(), FINAL, tools=TOOLS)
    assert scripted.bodies[0]["tools"] == TOOLS
    assert scripted.withheld == [frozenset()]


def test_it_is_off_unless_asked_for() -> None:
    scripted = Scripted()
    scripted.send(history(), FINAL, tools=TOOLS)
    assert scripted.bodies[0]["tools"] == TOOLS


def test_a_tool_of_that_name_is_left_to_the_agent() -> None:
    own = [*TOOLS, tool(RECALL, handle={"type": "string"})]
    scripted = recalling()
    asked = asks("r0123456789ab")
    assert scripted.send(history(), asked, tools=own).reply == asked
    assert scripted.bodies[0]["tools"] == own
    assert scripted.withheld == [frozenset()]


def test_tools_in_another_order_keep_their_place() -> None:
    scripted = recalling()
    scripted.send([say("user", "Hello.")], FINAL, tools=TOOLS)
    more = [say("user", "Hello."), FINAL, say("user", "And?")]
    scripted.send(more, FINAL, tools=TOOLS[::-1])
    assert kept(*scripted.bodies)
