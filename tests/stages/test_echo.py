"""Does an assistant message come back as it was generated, and only then?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import Edited, PrefixBroken
from kvagent.fingerprint import identity
from tests.wire import Message, Wire, call, kept, result, say

TASK = [say("system", "You help."), say("user", "Do it.")]


def back(generated: Message, returned: Message, **policy: Any) -> tuple[Wire, Message]:
    """What goes out for a reply that the agent sends back in another form."""
    wire = Wire(**policy)
    wire.send(TASK, generated)
    calls = generated.get("tool_calls") or []
    following = [result(made["id"], "r") for made in calls] or [say("user", "More.")]
    sent = wire.send([*TASK, returned, *following], say("assistant", "ok"))
    assert kept(wire.bodies[0], wire.bodies[1])
    return wire, sent[2]


def arguments(text: str, **rest: Any) -> Message:
    return {**call("call-1", "weather", text), **rest}


@pytest.mark.parametrize(
    ("generated", "returned"),
    [
        ('{"city":"Bern","unit":"C"}', '{"city": "Bern", "unit": "C"}'),
        ('{"city":"Bern","unit":"C"}', '{"unit":"C","city":"Bern"}'),
        ('{"city":"Zürich 🏔"}', '{"city":"Z\\u00fcrich \\ud83c\\udfd4"}'),
        ('{"a": {"c": 1, "b": [1, 2]}}', '{"a":{"b":[1,2],"c":1}}'),
        ("", "{}"),
        (" ", "{}"),
        ("{ }", ""),
    ],
)
def test_arguments_that_were_dumped_anew_go_out_as_generated(generated: str, returned: str) -> None:
    wire, sent = back(arguments(generated), arguments(returned))
    assert sent["tool_calls"][0]["function"]["arguments"] == generated
    assert [event.stage for event in wire.of(Edited)] == ["echo"]
    assert not wire.of(PrefixBroken)


@pytest.mark.parametrize(
    ("generated", "returned"),
    [
        ('{"n":9007199254740993}', '{"n":9007199254740992}'),
        ('{"n":18446744073709551617}', '{"n":18446744073709551616}'),
        ('{"n":0.10000000000000001}', '{"n":0.1}'),
        ('{"n":1}', '{"n":1.0}'),
        ('{"n":1}', '{"n":"1"}'),
        ('{"n":null}', "{}"),
        ('{"l":[1,2]}', '{"l":[2,1]}'),
        ('{"city":"Bern"', '{"city":"Bern" '),
        ("Bern", " Bern"),
    ],
)
def test_arguments_that_mean_something_else_go_out_as_the_agent_says(
    generated: str, returned: str
) -> None:
    wire, sent = back(arguments(generated), arguments(returned))
    assert sent["tool_calls"][0]["function"]["arguments"] == returned
    assert [event.cause for event in wire.of(PrefixBroken)] == ["message_changed"]
    assert wire.of(PrefixBroken)[0].index == 2


@pytest.mark.parametrize("content", ["", None, "absent"])
@pytest.mark.parametrize("generated", ["", None, "absent"])
def test_no_text_in_any_form_goes_out_as_generated(generated: Any, content: Any) -> None:
    def form(value: Any) -> Message:
        message = arguments('{"a":1}', content=value)
        if value == "absent":
            del message["content"]
        return message

    _, sent = back(form(generated), form(content))
    assert sent.get("content") in ("", None)
    assert identity(sent["tool_calls"]) == identity(form(content)["tool_calls"])


def test_what_reads_the_same_is_not_counted_as_a_repair() -> None:
    wire, sent = back(arguments('{"a":1}', content=""), arguments('{"a":1}', content=None))
    assert sent["content"] is None
    assert not wire.of(Edited)


@pytest.mark.parametrize(
    "returned",
    [
        [{"type": "text", "text": "Yes."}],
        [{"type": "text", "text": "Yes.", "annotations": None}],
    ],
)
def test_text_that_became_a_part_goes_out_as_generated(returned: Any) -> None:
    wire, sent = back(say("assistant", "Yes."), say("assistant", returned))
    assert sent["content"] in ("Yes.", returned)
    assert not wire.of(PrefixBroken)


def test_keys_that_frameworks_add_and_drop_do_not_matter() -> None:
    generated = {
        **arguments('{"a":1}'),
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
    }
    generated["tool_calls"][0]["index"] = 0
    returned = {**arguments('{"a": 1}'), "parsed": {"x": 1}, "name": None}
    wire, sent = back(generated, returned)
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    assert sent["parsed"] == {"x": 1}  # what the agent adds is its own
    assert not wire.of(PrefixBroken)


def test_parallel_calls_keep_their_order_and_ids() -> None:
    calls = [call(f"call-{n}", "read", f'{{"n":{n}}}')["tool_calls"][0] for n in range(3)]
    generated = say("assistant", "Three at once.", tool_calls=calls)
    spaced = [call(f"call-{n}", "read", f'{{"n": {n}}}')["tool_calls"][0] for n in range(3)]
    _, sent = back(generated, say("assistant", "Three at once.", tool_calls=spaced))
    assert identity(sent["tool_calls"]) == identity(calls)


def test_calls_in_another_order_are_a_change() -> None:
    calls = [call(f"call-{n}")["tool_calls"][0] for n in range(2)]
    wire, sent = back(
        say("assistant", None, tool_calls=calls), say("assistant", None, tool_calls=calls[::-1])
    )
    assert [made["id"] for made in sent["tool_calls"]] == ["call-1", "call-0"]
    assert [event.cause for event in wire.of(PrefixBroken)] == ["message_changed"]


def test_of_several_choices_the_one_that_comes_back_is_restored() -> None:
    from kvagent.chat import ChatReply
    from kvagent.flow import Answer, Call, drive

    wire = Wire()
    choices = tuple(arguments(f'{{"n":{n}}}') for n in range(3))
    body = json.dumps({"messages": TASK, "n": 3, "model": "m"}).encode()

    def answer(sent: Call) -> tuple[Answer, bytes]:
        return Answer(200), sent.body

    raw, settle = drive(wire.engine.turn(body), answer)
    assert raw == body
    settle(ChatReply(choices, {}, complete=True), 0.1)
    spaced = arguments('{"n": 1}')
    sent = wire.send([*TASK, spaced, result("call-1", "r")])
    assert sent[2]["tool_calls"][0]["function"]["arguments"] == '{"n":1}'


def test_a_reply_that_was_cut_off_is_not_kept() -> None:
    wire = Wire()
    wire.send(TASK, None)  # no complete reply
    sent = wire.send([*TASK, say("assistant", "What the agent makes of it"), say("user", "On.")])
    assert sent[2]["content"] == "What the agent makes of it"
    assert not wire.of(PrefixBroken)


def test_a_reply_that_the_agent_extends_is_no_break() -> None:
    wire, sent = back(say("assistant", "Yes."), say("assistant", "Yes. (Added by the agent.)"))
    assert sent["content"] == "Yes. (Added by the agent.)"
    assert not wire.of(PrefixBroken)
    made = say("assistant", "Yes.", tool_calls=call("call-1", "read", '{"a":1}')["tool_calls"])
    more = say(
        "assistant", "Yes. Now.", tool_calls=call("call-1", "read", '{"a": 1}')["tool_calls"]
    )
    wire, _ = back(made, more)
    assert not wire.of(PrefixBroken)


def test_a_reply_that_the_agent_rewrites_is_a_break_with_what_it_costs() -> None:
    wire = Wire()
    usage = {"prompt_tokens": 20, "completion_tokens": 1234}
    wire.send(TASK, say("assistant", "A long story."), usage=usage)
    wire.send([*TASK, say("assistant", "A summary."), say("user", "On.")])
    broken = wire.of(PrefixBroken)[0]
    assert (broken.cause, broken.index, broken.lost_tokens) == ("message_changed", 2, 1234)


def test_reasoning_is_restored_only_for_those_who_send_it() -> None:
    generated = {**arguments('{"a":1}'), "reasoning_content": "It follows.\n"}
    _, sent = back(generated, {**arguments('{"a": 1}'), "reasoning_content": "It follows."})
    assert sent["reasoning_content"] == "It follows.\n"
    _, sent = back(generated, arguments('{"a": 1}'))
    assert "reasoning_content" not in sent


def test_switched_off_a_reply_goes_out_as_it_comes() -> None:
    _, sent = back(arguments('{"a":1}'), arguments('{"a": 1}'), echo=None)
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'


def test_safe_mode_restores_too_and_observe_mode_does_not() -> None:
    _, sent = back(arguments('{"a":1}'), arguments('{"a": 1}'), mode="safe")
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    wire, sent = back(arguments('{"a":1}'), arguments('{"a": 1}'), mode="observe")
    assert sent["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'
    edit = wire.of(Edited)[0]
    assert (edit.stage, edit.cause, edit.index, edit.applied) == (
        "echo",
        "message_reserialised",
        2,
        False,
    )
    assert edit.saved_tokens > 0


def test_what_went_out_once_goes_out_ever_after() -> None:
    """In whatever form the agent dumps it from turn to turn."""
    wire = Wire()
    history = list(TASK)
    forms = ('{"a":1,"b":2}', '{"b": 2, "a": 1}', '{"a": 1, "b": 2}')
    for number in range(6):
        made = call(f"call-{number}", "read", forms[0])
        wire.send(history, made, dump=lambda body: json.dumps(body, sort_keys=True))
        history += [made, result(f"call-{number}", '{"x": 1, "y": [2]}')]
        for message in history:
            for each in message.get("tool_calls", ()):
                each["function"]["arguments"] = forms[number % 3]
            if message["role"] == "tool":
                message["content"] = ('{"x": 1, "y": [2]}', '{"y":[2],"x":1}')[number % 2]
    assert all(kept(a, b) for a, b in zip(wire.bodies, wire.bodies[1:], strict=False))
    assert not wire.of(PrefixBroken)
