"""What is still done where the stage is switched off, or the mode is safe or observe?"""

from __future__ import annotations

import json

from kvagent import Edited
from kvagent.volatile import NOTE
from tests.stages.pin_head.heads import (
    LIST,
    LONG,
    READ,
    breaks,
    chat,
    clock,
    head_of,
    holds,
    system,
    tools_sent,
    user,
)
from tests.wire import Wire, say


def test_switched_off_it_changes_nothing_and_names_everything() -> None:
    wire = tools_sent([READ, LIST], [LIST, READ], pin_head=None)
    assert wire.bodies[1]["tools"] == [LIST, READ]
    assert breaks(wire) == [("tools_reordered", 0)]
    wire = chat([clock("04:12"), clock("04:13")], Wire(pin_head=None))
    assert head_of(wire) == clock("04:13")[0]["content"]
    assert breaks(wire) == [("volatile_text", 0)]


def test_safe_mode_changes_no_text_that_a_model_reads() -> None:
    heads = [clock("04:12"), clock("04:12"), clock("04:13")]
    wire = chat(heads, Wire(mode="safe"))
    for head, body in zip(heads, wire.bodies, strict=True):
        assert body["messages"][0] == head[0]
        assert NOTE not in json.dumps(body)
    assert breaks(wire) == [("volatile_text", 0)]


def test_safe_mode_replays_the_first_form() -> None:
    wire = tools_sent([READ, LIST], [LIST, READ], mode="safe")
    assert wire.bodies[1]["tools"] == [READ, LIST]
    wire = chat([[system("Hi.")], [system([{"type": "text", "text": "Hi."}])]], Wire(mode="safe"))
    assert holds(wire)
    order = [[system("Plan 1."), system("Be brief.")], [system("Plan 2."), system("Be brief.")]]
    wire = chat(order, Wire(mode="safe"))
    assert [m["content"] for m in wire.bodies[1]["messages"][:2]] == ["Plan 2.", "Be brief."]


def test_observe_mode_sends_what_came_and_says_what_it_would_save() -> None:
    wire = Wire(mode="observe")
    history = [user("Question?")]
    for number, tools in enumerate(([READ, LIST], [LIST, READ])):
        messages = [*clock(f"04:{number + 10}"), *history]
        body = {"messages": messages, "model": "m", "tools": tools}
        wire.send(messages, say("assistant", LONG), tools=tools, dump=json.dumps)
        assert json.loads(wire.raws[-1]) == body
        assert b'": ' in wire.raws[-1]  # as it was dumped
        history += [say("assistant", LONG), user("More?")]
    edits = wire.of(Edited)
    assert {(event.cause, event.applied) for event in edits} == {
        ("volatile_text", False),
        ("tools_reordered", False),
    }
    assert sum(event.saved_tokens for event in edits) > 0
