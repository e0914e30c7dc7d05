"""Does the head stay as it was first sent, and does everything it says still reach the model?"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kvagent import Bypassed, Edited, PrefixBroken, Volatile, volatile
from kvagent.volatile import NOTE, PLACEHOLDER
from tests.wire import Message, Wire, call, compact, kept, result, say, tool

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


# -- the same head


def test_the_same_head_goes_out_as_it_came() -> None:
    wire = chat([[system("Be brief. 日本 🙂 é e\u0301")]] * 3)
    assert holds(wire)
    assert wire.of(Edited) == []
    assert not wire.of(PrefixBroken)


@pytest.mark.parametrize(
    "other",
    [
        [{"type": "text", "text": "Be brief."}],
        [{"type": "text", "text": "Be brief.", "cache_control": None}],
    ],
)
def test_the_first_form_of_the_same_text_stays(other: Any) -> None:
    wire = chat([[system("Be brief.")], [system(other)], [system("Be brief.")]])
    assert holds(wire)
    assert [event.cause for event in wire.of(Edited)] == ["system_reserialised"]


def test_null_and_absent_keys_are_the_same_head() -> None:
    wire = chat([[system("Be brief.")], [{"content": "Be brief.", "name": None, "role": "system"}]])
    assert holds(wire)


@pytest.mark.parametrize(
    "head",
    [
        [],
        [say("developer", "Be brief.")],
        [system("One."), say("developer", "Two."), system("Three.")],
        [system([])],
        [system("")],
        [system(None)],
        [system([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}])],
    ],
    ids=["none", "developer", "several", "no parts", "empty", "null", "parts"],
)
def test_heads_of_any_kind_stay(head: list[Message]) -> None:
    wire = chat([head] * 3)
    assert holds(wire)
    assert wire.bodies[0]["messages"][: len(head)] == head
    assert not wire.of(Bypassed)


def test_a_request_of_a_system_message_alone_is_fine(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    with caplog.at_level(logging.ERROR, "kvagent"):
        for _ in range(2):
            wire.send([system("Today is Monday. Say something.")], say("assistant", LONG))
        more = [system("Today is Monday. Say something."), say("assistant", LONG), user("More.")]
        wire.send(more, say("assistant", "ok"))
    assert not caplog.records
    assert not wire.of(Bypassed)
    assert head_of(wire, 0) == "Today is Monday. Say something."  # nothing could bear a note


# -- a clock


def clock(text: str) -> list[Message]:
    return [system(f"You help.\nCurrent time: {text}\nBe brief.")]


def test_a_clock_gets_a_placeholder_at_first_sight_and_its_value_a_note() -> None:
    wire = chat([clock("04:12:30")])
    assert head_of(wire) == f"You help.\nCurrent time: {PLACEHOLDER}\nBe brief."
    assert newest(wire) == f"Question 0?\n\n{NOTE}Current time: 04:12:30"


def test_a_value_is_told_only_when_it_changes() -> None:
    wire = chat([clock(text) for text in ("04:12", "04:12", "04:13", "04:13", "04:12")])
    assert holds(wire)
    notes = [NOTE in message["content"] for message in wire.bodies[-1]["messages"]]
    # The last one ticks back to what was told at first.
    assert [at for at, noted in enumerate(notes) if noted] == [1, 5, 9]
    assert newest(wire).endswith("Current time: 04:12")


def test_conversations_share_one_head() -> None:
    wire = Wire()
    wire.send([*clock("04:12"), user("One?")])
    wire.send([*clock("05:13"), user("Two?")])
    assert head_of(wire, 0) == head_of(wire, 1)
    assert "04:12" not in json.dumps(wire.bodies[1])


def test_of_two_clocks_in_a_line_the_note_tells_both() -> None:
    head = "Today is 2026-11-{}, the time is 04:12:{}."
    wire = chat(
        [[system(head.format(day, second))] for day, second in ((29, 10), (29, 11), (30, 11))]
    )
    assert holds(wire)
    assert head_of(wire) == f"Today is {PLACEHOLDER}, the time is {PLACEHOLDER}."
    assert newest(wire, 1).endswith(NOTE + head.format(29, 11))
    assert newest(wire, 2).endswith(NOTE + head.format(30, 11))


def test_a_value_inside_a_long_line_is_told_with_what_stands_around() -> None:
    line = "Blah blah. " * 100 + "The gate closes at 2026-11-30 {} sharp." + " Blah blah." * 100
    wire = chat([[system(line.format(at))] for at in ("04:12", "04:13")])
    assert holds(wire)
    note = newest(wire).partition(NOTE)[2]
    assert "The gate closes at 2026-11-30 04:13 sharp." in note
    assert len(note) < 300


def test_an_attribution_header_that_changes_is_held() -> None:
    heads = [
        [system(f"x-anthropic-billing-header: cc_version=2.1; cch={number:05x};\nYou help.")]
        for number in range(3)
    ]
    wire = chat(heads, text="ok")
    assert holds(wire)
    assert head_of(wire) == f"x-anthropic-billing-header: {PLACEHOLDER}\nYou help."
    assert "cch=00002;" in newest(wire)


# -- text that is seen to change


def test_a_date_that_changes_is_told_although_it_may_be_an_instruction() -> None:
    wire = chat(
        [[system(f"Release date: {date}. Plan for it.")] for date in ("2026-12-01", "2027-01-15")]
    )
    assert holds(wire)
    assert head_of(wire) == "Release date: 2026-12-01. Plan for it."
    assert newest(wire).endswith(f"{NOTE}Release date: 2027-01-15. Plan for it.")
    assert breaks(wire) == []


def test_later_conversations_get_a_placeholder_where_text_was_seen_to_change() -> None:
    wire = chat([[system(f"Release date: {date}.")] for date in ("2026-12-01", "2027-01-15")])
    wire.send([system("Release date: 2028-01-01."), user("Another?")])
    assert head_of(wire) == f"Release date: {PLACEHOLDER}."
    assert newest(wire) == f"Another?\n\n{NOTE}Release date: 2028-01-01."


@pytest.mark.parametrize(
    "head",
    [
        "Session 123e4567-e89b-12d3-a456-42661417400{}",
        "Request id: req-4711-{}",
        "Battery: {} %",
        "Mood: <volatile>{}</volatile>",
        "Built from commit 0a1b2c3d{}",
    ],
)
@pytest.mark.parametrize("text", [LONG, "ok"], ids=["long", "short"])
def test_ids_and_declared_text_stay_once_they_change(head: str, text: str) -> None:
    wire = Wire(volatile=Volatile(patterns=(r"Battery: (?P<value>\d+)",)))
    chat([[system(f"You help.\n{head.format(number)}")] for number in (1, 2, 3, 3)], wire, text)
    assert holds(wire)
    assert breaks(wire) == []
    assert head_of(wire) == f"You help.\n{head.format(1)}"
    assert newest(wire, 1).endswith(NOTE + head.format(2))
    assert newest(wire, 2).endswith(NOTE + head.format(3))
    assert NOTE not in newest(wire, 3)


def test_marked_text_may_be_empty_at_first() -> None:
    heads = [[system(f"Name: {volatile(name)}")] for name in ("", "Ada", "")]
    wire = chat(heads)
    assert holds(wire)
    assert newest(wire, 1).endswith(f"{NOTE}Name: {volatile('Ada')}")
    assert newest(wire, 2).endswith(f"{NOTE}Name: {volatile('')}")


# -- instructions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Current time: 04:12. Never delete files.", "Current time: 04:13. Always delete files."),
        ("Current time: 04:12 deny access", "Current time: 04:12 grant access"),
        ("Current time: 04:12 DENY", "Current time: 04:12 LET"),
        ("Every run id must be logged.", "Every run id may be logged."),
        ("Current time: 04:12", "Current time: unknown"),
    ],
)
def test_a_changed_instruction_next_to_a_clock_is_followed_and_named(
    before: str, after: str
) -> None:
    wire = chat([[system(f"You help.\n{text}")] for text in (before, after, after)])
    assert breaks(wire) == [("system_changed", 0)]
    seen = head_of(wire, 1) + newest(wire, 1)
    for word in after.split():
        assert word in seen
    assert kept(wire.bodies[1], wire.bodies[2])


def test_what_stays_goes_before_what_changes() -> None:
    heads = [
        [system(f"Plan {number}."), say("developer", "Be brief."), system("Be kind.")]
        for number in (1, 2, 3, 3)
    ]
    wire = chat(heads)
    assert breaks(wire) == [("system_changed", 0), ("system_changed", 0)]
    for request in (1, 2, 3):
        order = [m["content"] for m in wire.bodies[request]["messages"][:3]]
        assert order == ["Be brief.", "Be kind.", f"Plan {min(request + 1, 3)}."]
    assert kept(wire.bodies[2], wire.bodies[3])


@pytest.mark.parametrize(
    ("heads", "index"),
    [
        ((["One."], ["One.", "Two."]), 1),
        ((["One.", "Two."], ["One."]), 1),
        ((["One."], []), 0),
        (([], ["One."]), 0),
    ],
)
def test_a_system_message_more_or_less_is_named(
    heads: tuple[list[str], list[str]], index: int
) -> None:
    wire = chat([[system(text) for text in head] for head in heads])
    assert breaks(wire) == [("system_changed", index)]


def test_a_system_message_in_mid_history_is_a_message_like_others() -> None:
    wire = Wire()
    history = [system("You help."), user("One?")]
    wire.send(history, say("assistant", LONG))
    history += [say("assistant", LONG), system("From now on: Today is Monday."), user("Two?")]
    wire.send(history, say("assistant", "ok"))
    wire.send([*history, say("assistant", "ok"), user("Three?")])
    assert holds(wire)
    assert wire.bodies[-1]["messages"][3] == system("From now on: Today is Monday.")


# -- where the note goes


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (user("Hi."), f"Hi.\n\n{NOTE}Today is Monday."),
        (user(""), f"{NOTE}Today is Monday."),
        (user(None), f"{NOTE}Today is Monday."),
        (
            user([{"type": "image_url", "image_url": {"url": "data:,x"}}]),
            [
                {"type": "image_url", "image_url": {"url": "data:,x"}},
                {"type": "text", "text": f"{NOTE}Today is Monday."},
            ],
        ),
        (user([]), [{"type": "text", "text": f"{NOTE}Today is Monday."}]),
        (result("call-1", '{"a":1}'), f'{{"a":1}}\n\n{NOTE}Today is Monday.'),
    ],
    ids=["text", "empty", "null", "image", "no parts", "tool"],
)
def test_a_note_ends_the_newest_user_or_tool_message(message: Message, expected: Any) -> None:
    wire = Wire()
    sent = wire.send([system("Today is Monday."), message])
    assert sent[-1] == {**message, "content": expected}
    assert message["content"] != expected  # what the agent holds stays its own


def test_a_prefill_bears_no_note() -> None:
    wire = Wire()
    head = system("Today is Monday.")
    sent = wire.send([head, user("Count."), say("assistant", "One,")], say("assistant", " two."))
    assert [NOTE in message["content"] for message in sent] == [False, True, False]
    whole = say("assistant", "One, two.")
    after = wire.send([head, user("Count."), whole, user("On.")])
    assert after[:2] == sent[:2]
    assert breaks(wire) == []


def test_without_a_user_or_tool_message_the_head_goes_out_as_it_came() -> None:
    wire = Wire()
    for day in ("Monday", "Tuesday"):
        sent = wire.send(
            [system(f"Today is {day}."), say("assistant", "One,")], say("assistant", "x")
        )
        assert sent[0]["content"] == f"Today is {day}."
    assert not wire.of(Bypassed)


def test_content_that_cannot_bear_a_note_lets_the_request_out_as_it_came() -> None:
    wire = Wire()
    sent = wire.send([system("Today is Monday."), user({"odd": True})])
    assert sent == [system("Today is Monday."), user({"odd": True})]
    assert [event.reason for event in wire.of(Bypassed)] == ["content of a user message is a dict"]


def test_a_regenerated_answer_knows_the_new_time() -> None:
    wire = Wire()
    reply = say("assistant", LONG)
    wire.send([*clock("04:12"), user("One?")], reply)
    before = wire.send([*clock("04:13"), user("One?"), reply, user("Two?")], reply)
    after = wire.send([*clock("04:14"), user("One?"), reply, user("Two?")], reply)
    assert after[:3] == before[:3]
    assert after[3]["content"] == f"Two?\n\n{NOTE}Current time: 04:14"
    assert breaks(wire) == []


def test_an_agent_that_goes_back_tells_the_time_again() -> None:
    wire = Wire()
    reply = say("assistant", LONG)
    first = [*clock("04:12"), user("One?")]
    wire.send(first, reply)
    wire.send([*clock("04:13"), *first[1:], reply, user("Two?")], reply)
    sent = wire.send([*clock("04:14"), *first[1:], reply, user("Another way?")], reply)
    assert sent[:3] == wire.bodies[1]["messages"][:3]
    assert sent[3]["content"].endswith("Current time: 04:14")
    again = wire.send(
        [*clock("04:14"), *first[1:], reply, user("Another way?"), reply, user("On.")]
    )
    assert again[:4] == sent
    assert breaks(wire) == []


def test_what_stands_before_a_note_was_not_told_it() -> None:
    """Going back behind the message that bore it, the value is told again."""
    wire = Wire()
    history = [*clock("04:12"), user("Do it.")]
    wire.send(history, call("call-1"))
    history += [call("call-1"), result("call-1", "Done.")]
    wire.send([*clock("04:13"), *history[1:]], say("assistant", LONG))
    sent = wire.send([*clock("04:13"), *history[1:3], user("Never mind.")], say("assistant", LONG))
    assert sent[:3] == wire.bodies[1]["messages"][:3]
    assert sent[3]["content"] == f"Never mind.\n\n{NOTE}Current time: 04:13"


def test_a_conversation_may_begin_with_a_history() -> None:
    wire = Wire(volatile=Volatile(patterns=(r"Customer: (?P<value>\w+)",)))
    head = "Customer: ada\nSession 123e4567-e89b-12d3-a456-42661417400{}"
    for number in (1, 2):  # sessions are told apart
        wire.send([system(head.format(number)), user("Other.")], say("assistant", "ok"))
    history = [system(head.format(3)), user("One."), say("assistant", "Said."), user("Two.")]
    wire.send(history, say("assistant", "ok"))
    wire.send([*history, say("assistant", "ok"), user("Three.")], dump=json.dumps)
    assert kept(wire.bodies[2], wire.bodies[3])
    assert breaks(wire) == []


# -- other calls on the same messages


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


# -- tools and options


READ, LIST = tool("read", path={"type": "string"}), tool("list", folder={"type": "string"})


def tools_sent(*requests: list[Message] | None, **policy: Any) -> Wire:
    wire = Wire(**policy)
    history = [system("You help."), user("Question?")]
    for number, tools in enumerate(requests):
        reply = say("assistant", f"{number}: {LONG}")
        wire.send(history, reply, tools=tools)
        history += [reply, user(f"Question {number}?")]
    return wire


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


# -- switched off, safe, observe


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


# -- tenants


TENANT = "Customer: {}\nSession 123e4567-e89b-12d3-a456-{}\nCurrent time: 04:{}\nYou help."
PATTERN = Volatile(patterns=(r"Customer: (?P<value>\w+)",))


@pytest.mark.parametrize("reply", ["long", "short", "call"])
@pytest.mark.parametrize("dumps", [1, 2])
def test_tenants_with_the_same_words_never_see_each_other(reply: str, dumps: int) -> None:
    """Same texts, same replies, same ids of calls; what differs are the values in the head."""
    values = {"ada": "ada000000001", "bab": "bab000000002", "dad": "dad000000003"}
    wire = Wire(volatile=PATTERN)
    histories = {name: [user("Hello")] for name in values}

    made = {"long": say("assistant", LONG), "short": say("assistant", "ok")}

    def turn(name: str, number: int) -> None:
        text = TENANT.format(name, values[name], 10 + number)
        answer = made.get(reply) or call(f"call-{number}")
        history = histories[name]
        dump = json.dumps if number % dumps else compact
        sent = wire.send([system(text), *history], answer, dump=dump)
        for other in values.keys() - {name}:
            assert other not in json.dumps(sent)
        assert name in json.dumps(sent)
        following = user("Go on.") if reply in made else result(f"call-{number}", "r")
        histories[name] = [*history, answer, following]

    for number in range(4):
        for name in values:
            turn(name, number)
    for number in range(4, 8):
        turn("ada", number)
    for number in range(4, 8):  # the others follow on the same words
        turn("bab", number)
        turn("dad", number)


@pytest.mark.parametrize(
    "examples",
    [
        [say("assistant", LONG)],
        [user("Example"), call("call-1"), result("call-1", "r"), say("assistant", LONG)],
    ],
    ids=["greeting", "few-shot"],
)
def test_examples_in_the_prompt_are_no_sign_of_the_same_conversation(
    examples: list[Message],
) -> None:
    wire = Wire(volatile=PATTERN)
    for name in ("ada", "bob"):
        wire.send([system(f"Customer: {name}"), *examples, user("Hello")], say("assistant", "Hi."))
    assert "ada" not in json.dumps(wire.bodies[1])


def test_a_tenant_whose_beginning_was_not_seen_gets_no_others_values() -> None:
    wire = Wire(volatile=PATTERN)
    short = say("assistant", "Hi.")
    for name in ("ada", "bob"):  # from now on, customers are told apart
        wire.send([system(f"Customer: {name}"), user("Hello")], short)
    sent = wire.send([system("Customer: eve"), user("Hello"), short, user("More?")], short)
    assert "ada" not in json.dumps(sent)
    assert "bob" not in json.dumps(sent)
    assert breaks(wire) == [("volatile_text", 1)]
