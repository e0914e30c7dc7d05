"""Do the helpers for users' tests see a prefix that broke, and say where?"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kvagent import Engine, Evict, Policy, Tokens
from kvagent.chat import Doubt
from kvagent.testing import Break, Recorder, assert_prefix_kept, prefix_break, rewritten
from tests.wire import Message, Wire, call, result, say, tool

READ, GREP = tool("read", path={"type": "string"}), tool("grep", pattern={"type": "string"})
HISTORY = [
    say("system", "You are careful."),
    say("user", "What is in a.py?"),
    call("c1", arguments={"path": "a.py"}),
    result("c1", "x = 1"),
]


def body(messages: list[Message] | None = None, **more: Any) -> dict[str, Any]:
    return {"messages": HISTORY if messages is None else messages, "model": "m", **more}


def broken(before: Any, after: Any) -> Break:
    found = prefix_break(before, after)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "after",
    [
        body(),
        body([*HISTORY, say("assistant", "An x."), say("user", "Thanks.")]),
        body(temperature=0.5, stream=True),
        body([dict(reversed(message.items())) for message in HISTORY]),
        body([{**message, "name": None} for message in HISTORY]),
        body(
            [
                *HISTORY[:1],
                say("user", [{"type": "text", "text": "What is in a.py?"}]),
                *HISTORY[2:],
            ]
        ),
        json.dumps(body(), indent=1),
        json.dumps(body()).encode(),
    ],
    ids=range(8),
)
def test_what_a_server_renders_alike_is_kept(after: Any) -> None:
    assert prefix_break(body(), after) is None
    assert_prefix_kept([body(), after])


def test_a_changed_text_is_shown_around_its_first_difference() -> None:
    long = "Mind the gap. " * 20
    before = body([say("system", long + "It is 12:00:01. " + long), HISTORY[1]])
    after = body([say("system", long + "It is 12:00:02. " + long), HISTORY[1]])
    found = broken(before, after)
    assert found.place == "messages[0]"
    first, old, new, caret = str(found).splitlines()
    assert first == f"messages[0] differs from character {found.at} on"
    assert (old[caret.index("^")], new[caret.index("^")]) == ("1", "2")
    assert "It is 12:00:0" in old
    assert len(old) < 120


def test_a_difference_near_the_start_is_pointed_at_too() -> None:
    found = broken(body([say("user", "a")]), body([say("assistant", "a")]))
    _, old, new, caret = str(found).splitlines()
    assert (old[caret.index("^")], new[caret.index("^")]) == ("u", "a")


def test_arguments_are_compared_byte_for_byte() -> None:
    again = call("c1", arguments='{"path":"a.py"}')
    assert broken(body(), body([*HISTORY[:2], again, HISTORY[3]])).place == "messages[2]"


def test_a_message_that_is_gone() -> None:
    found = broken(body(), body(HISTORY[:3]))
    assert (found.place, found.after) == ("messages[3]", "")
    assert "(nothing)" in str(found)


def test_a_message_that_was_put_in_between() -> None:
    found = broken(body(), body([HISTORY[0], say("user", "Hello."), *HISTORY[1:]]))
    assert found.place == "messages[1]"


@pytest.mark.parametrize(
    "tools", [[GREP, READ], [READ], None, [READ, dict(reversed(GREP.items()))]], ids=range(4)
)
def test_tools_have_an_order(tools: list[Message] | None) -> None:
    after = body() if tools is None else body(tools=tools)
    assert broken(body(tools=[READ, GREP]), after).place == "tools"


def test_no_tools_are_no_tools() -> None:
    assert prefix_break(body(), body(tools=[])) is None


def test_options_that_shape_the_prompt() -> None:
    after = body(chat_template_kwargs={"enable_thinking": False})
    assert broken(body(), after).place == "chat_template_kwargs"
    assert broken(body(), {**body(), "model": "n"}).place == "model"


def test_the_request_that_broke_is_named() -> None:
    bodies = [body(HISTORY[:2]), body(), body([say("system", "You are quick."), *HISTORY[1:]])]
    with pytest.raises(AssertionError, match=r"request 3 .* prompt of request 2: messages\[0\]"):
        assert_prefix_kept(bodies)


@pytest.mark.parametrize("bodies", [[], [body()]], ids=["none", "one"])
def test_few_requests_break_nothing(bodies: list[Any]) -> None:
    assert_prefix_kept(bodies)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"{", "request 2 is not JSON"),
        ("[]", "request 2 has no list of messages"),
        ({"prompt": "a"}, "request 2 has no list of messages"),
        ({"messages": ["a"]}, "messages[0] of request 2 is no object"),
    ],
)
def test_what_is_no_request_is_named(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        assert_prefix_kept([body(), wrong])


# --- through an engine


def ticking(second: int, messages: list[Message]) -> dict[str, Any]:
    clock = say("system", f"You are careful.\nCurrent time: 12:00:0{second}")
    return body([clock, *messages[1:]], tools=[READ, GREP][:: 1 - second % 2 * 2])


def test_requests_that_break_their_prefix_are_mended() -> None:
    bodies = [
        ticking(0, HISTORY[:2]),
        ticking(1, HISTORY),
        ticking(2, [*HISTORY, say("user", "?")]),
    ]
    with pytest.raises(AssertionError):
        assert_prefix_kept(bodies)
    assert_prefix_kept(rewritten(bodies))


@pytest.mark.parametrize("form", [json.dumps, lambda value: json.dumps(value).encode(), dict])
def test_a_body_may_be_bytes_text_or_a_mapping(form: Any) -> None:
    assert rewritten([form(body())]) == [body()]


def test_the_policy_is_followed() -> None:
    long = body([*HISTORY[:3], result("c1", "a line\n" * 2_000)])
    (short,) = rewritten([long], Policy(evict=Evict(trigger=Tokens(300), keep=200)))
    assert len(json.dumps(short)) < 3_000
    assert rewritten([long], Policy(evict=None)) == [long]


def test_a_request_that_cannot_be_rewritten_is_said() -> None:
    with pytest.raises(Doubt, match="no list of messages"):
        rewritten([{"messages": []}])


# --- the recorder


def recorded(bodies: list[dict[str, Any]]) -> Recorder:
    """A recorder between an agent and a server, with kvagent in front."""
    recorder = Recorder()
    wire = Wire(Engine(Policy(probe=False), on_event=recorder))
    for request in bodies:
        wire.send(request["messages"], tools=request.get("tools"))
        recorder.record(wire.raws[-1])
    return recorder


def test_a_recorder_sees_that_all_is_well() -> None:
    recorder = recorded([ticking(0, HISTORY[:2]), ticking(1, HISTORY)])
    recorder.assert_prefix_kept()
    assert recorder.breaks == []
    assert len(recorder.bodies) == 2
    assert recorder.events


def test_a_recorder_tells_of_the_events() -> None:
    other = [say("system", "You are quick."), *HISTORY[1:]]
    recorder = recorded([body(), body([*other, say("assistant", "An x."), say("user", "?")])])
    assert [event.cause for event in recorder.breaks] == ["system_changed"]
    with pytest.raises(AssertionError, match=r"(?s)did not stay:.*system_changed at message 0"):
        recorder.assert_prefix_kept()


def test_a_recorder_compares_the_bodies() -> None:
    recorder = Recorder()
    for messages in (HISTORY, HISTORY[1:]):
        recorder.record(body(messages))
    with pytest.raises(AssertionError, match="request 2 does not begin"):
        recorder.assert_prefix_kept()
