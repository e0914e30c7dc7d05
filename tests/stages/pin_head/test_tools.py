"""Do tools stay in their first order and form, and is what else shapes the prompt named?"""

from __future__ import annotations

import json

from kvagent import Edited, PrefixBroken
from tests.stages.pin_head.heads import LIST, LONG, READ, breaks, system, tools_sent, user
from tests.wire import Message, Wire, say, tool


def test_no_tools_in_any_form_are_no_tools() -> None:
    wire = tools_sent(None, [], None)
    assert ["tools" in body for body in wire.bodies] == [False, True, False]
    assert breaks(wire) == []


def test_null_for_tools_goes_out_as_it_came() -> None:
    wire = Wire()
    history = [system("Today is Monday."), user("Question?")]
    for tools in (None, [READ]):
        wire.send(history, say("assistant", LONG), tools=tools)
        history += [say("assistant", LONG), user("More?")]
    assert b'"tools"' not in wire.raws[0]
    body = json.dumps({"messages": history, "tools": None}).encode()
    assert b'"tools":null' in wire.engine.rewrite(body).replace(b" ", b"")


def test_a_tool_that_stands_twice_stays_twice() -> None:
    wire = tools_sent([READ, READ, LIST], [LIST, READ, READ])
    assert wire.bodies[1]["tools"] == [READ, READ, LIST]
    assert breaks(wire) == []


def test_a_second_copy_of_a_tool_is_a_change() -> None:
    assert breaks(tools_sent([READ, LIST], [READ, LIST, READ])) == [("tools_changed", 0)]


def test_null_and_absent_in_tools_are_the_same() -> None:
    function: Message = {"name": "now", "parameters": {"type": "object"}}
    bare = {"type": "function", "function": function}
    nulls = {
        "function": {**function, "description": None, "strict": None},
        "type": "function",
    }
    wire = tools_sent([bare], [nulls])
    assert json.dumps(wire.bodies[1]["tools"]) == json.dumps([bare])
    assert [event.cause for event in wire.of(Edited)] == ["schema_key_order"]


def test_a_changed_definition_is_named() -> None:
    other = {**READ, "function": {**READ["function"], "description": "Reads otherwise."}}
    wire = tools_sent([READ, LIST], [LIST, other])
    assert breaks(wire) == [("tools_changed", 0)]
    assert wire.bodies[1]["tools"] == [LIST, other]
    assert wire.of(PrefixBroken)[0].detail == "a definition changed"


def test_the_order_of_an_enum_is_the_first_one_and_of_a_default_the_agents() -> None:
    first = tool("sort", by={"enum": ["b", "a"]}, to={"default": ["x", "y"]})
    same = tool("sort", by={"enum": ["a", "b"]}, to={"default": ["x", "y"]})
    other = tool("sort", by={"enum": ["b", "a"]}, to={"default": ["y", "x"]})
    wire = tools_sent([first], [same], [other])
    assert wire.bodies[1]["tools"] == [first]
    assert wire.bodies[2]["tools"] == [other]
    assert breaks(wire) == [("tools_changed", 0)]


def test_tools_that_go_for_one_call_come_back_in_their_order() -> None:
    wire = tools_sent([READ, LIST], None, [LIST, READ])
    assert wire.bodies[2]["tools"] == [READ, LIST]
    assert breaks(wire) == [("tools_changed", 0)]


def test_an_option_that_shapes_the_prompt_is_named() -> None:
    wire = Wire()
    history = [system("You help."), user("Question?")]
    for thinking in (True, True, False):
        kwargs = {"enable_thinking": thinking, "a": 1}
        wire.send(history, say("assistant", LONG), chat_template_kwargs=kwargs, top_p=thinking)
        history += [say("assistant", LONG), user("More?")]
    assert breaks(wire) == [("options_changed", 0)]
    assert wire.of(PrefixBroken)[0].detail == "changed: chat_template_kwargs"
