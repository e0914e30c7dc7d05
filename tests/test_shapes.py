"""What agents are known to do to their own prompts: does the prefix hold, or is the break named?

One test or more for each kind of fault that users of both servers reported. What only the chat
template does is not the agent's doing: there the wire must stay, and no break be claimed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvagent import Bypassed, Edited, PrefixBroken
from kvagent.fingerprint import identity
from kvagent.volatile import PLACEHOLDER
from tests.wire import Message, Wire, call, kept, result, say, tool

REMINDER = "<system-reminder>\nThe todo list is empty. Do not mention this.\n</system-reminder>"


def system(text: str) -> Message:
    return say("system", text)


def user(content: Any) -> Message:
    return say("user", content)


def assistant(content: Any, **rest: Any) -> Message:
    return say("assistant", content, **rest)


def reply(number: int) -> Message:
    return assistant(f"The answer to question number {number} is {number * 7}.")


def talk(
    request: Callable[[int, list[Message]], Sequence[Message]],
    turns: int = 4,
    wire: Wire | None = None,
    **options: Any,
) -> Wire:
    """A chat of some turns: ``request`` makes what the agent sends of turn and history."""
    wire = wire or Wire()
    history: list[Message] = []
    for number in range(turns):
        history.append(user(f"Question number {number}?"))
        wire.send(request(number, history), reply(number), **options)
        history.append(reply(number))
    return wire


def holds(wire: Wire) -> bool:
    """Whether every request began with the whole of the one before, and none was bypassed."""
    pairs = zip(wire.bodies, wire.bodies[1:], strict=False)
    return all(kept(before, after) for before, after in pairs) and not wire.of(Bypassed)


def breaks(wire: Wire) -> list[tuple[str, int]]:
    return [(event.cause, event.index) for event in wire.of(PrefixBroken)]


def causes(wire: Wire) -> set[str]:
    return {event.cause for event in wire.of(Edited)}


# -- 1: a reminder moves from the old to the newest user message


@pytest.mark.parametrize(
    "newest",
    [
        lambda text, n: f"{text}\n{REMINDER}",
        lambda text, n: f"{REMINDER}\n{text}",
        lambda text, n: f"{REMINDER}\n{text}\n<cwd>/home/me/project</cwd>",
        lambda text, n: text.replace(" ", f" {REMINDER} ", 1),
        lambda text, n: f"{text}\n<system-reminder>It is turn {n} of many.</system-reminder>",
        lambda text, n: [{"type": "text", "text": text}, {"type": "text", "text": REMINDER}],
        lambda text, n: [{"type": "text", "text": REMINDER}, {"type": "text", "text": text}],
    ],
    ids=["end", "front", "both ends", "inside", "same tag", "part", "front part"],
)
def test_1_a_reminder_that_moves_stays_where_it_was(newest: Callable[[str, int], Any]) -> None:
    def request(number: int, history: list[Message]) -> list[Message]:
        last = user(newest(history[-1]["content"], number))
        return [system("You help."), *history[:-1], last]

    wire = talk(request)
    assert holds(wire)
    assert breaks(wire) == []
    assert causes(wire) == {"text_moved"}


@pytest.mark.parametrize("role", ["user", "system"])
@pytest.mark.parametrize("text", [REMINDER, "<system-reminder>Turn {}.</system-reminder>"])
def test_1_a_reminder_of_its_own_that_moves_stays(role: str, text: str) -> None:
    wire = talk(
        lambda number, history: [system("You help."), *history, say(role, text.format(number))]
    )
    assert holds(wire)
    assert breaks(wire) == []


def test_1_a_reminder_before_the_newest_message_stays() -> None:
    """But for the first turn's: without it the request could be another conversation's."""
    wire = talk(
        lambda number, history: [
            system("You help."),
            *history[:-1],
            user(REMINDER),
            history[-1],
        ]
    )
    assert breaks(wire) == [("messages_removed", 1)]
    assert all(kept(a, b) for a, b in zip(wire.bodies[1:], wire.bodies[2:], strict=False))


def test_1_a_reminder_behind_tool_results_stays() -> None:
    wire = Wire()
    history = [system("You help."), user("Do it.")]
    for number in range(4):
        last = {**history[-1], "content": f"{history[-1]['content']}\n{REMINDER}"}
        made = call(f"call-{number}")
        wire.send([*history[:-1], last], made)
        history += [made, result(f"call-{number}", f"Result {number}.")]
    assert holds(wire)
    assert breaks(wire) == []


def test_1_text_that_is_gone_and_not_moved_is_a_change() -> None:
    wire = Wire()
    first = user(f"Question?\n{REMINDER}")
    wire.send([system("You help."), first], reply(0))
    sent = wire.send([system("You help."), user("Question?"), reply(0), user("More?")], reply(1))
    assert sent[1]["content"] == "Question?"
    assert breaks(wire) == [("message_changed", 1)]


# -- 2: a billing header whose checksum changes in the first line of the system prompt


def test_2_a_changing_attribution_header_is_held() -> None:
    def request(number: int, history: list[Message]) -> list[Message]:
        header = f"x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch=a{number}f9c;"
        return [system(f"{header}\nYou are an agent.\n" + "Be careful. " * 400), *history]

    wire = talk(request)
    assert holds(wire)
    assert breaks(wire) == []
    assert "cch=" not in wire.bodies[0]["messages"][0]["content"]
    assert "cch=a3f9c;" in wire.bodies[-1]["messages"][-1]["content"]


# -- 4: a time with minutes or seconds in the system prompt


@pytest.mark.parametrize(
    "clock",
    [
        "Current time: 2026-11-30T04:12:{:02}Z",
        "Current date and time: Monday, November 30, 2026 at 4:{:02} PM",
        "It is now 04:12:{:02}.",
        "Started {:02} minutes ago, at 2026-11-30 04:12:{:02}",
    ],
)
def test_4_a_clock_in_the_head_costs_a_note(clock: str) -> None:
    def request(number: int, history: list[Message]) -> list[Message]:
        line = clock.replace("Started {:02} minutes ago, at ", "Started at ").format(number + 10)
        return [system(f"You help.\n{line}\nBe brief."), *history]

    wire = talk(request)
    assert holds(wire)
    assert breaks(wire) == []
    for number, body in enumerate(wire.bodies):
        assert str(number + 10) in json.dumps(body)


# -- 5: date and working directory before the instructions


def test_5_a_date_that_rolls_over_is_told_in_a_note() -> None:
    def request(number: int, history: list[Message]) -> list[Message]:
        day = 30 if number < 2 else 31
        head = (
            f"Today's date: 2026-12-{day}\nWorking directory: /home/me/project\n\nYou are an agent."
        )
        return [system(head), *history]

    wire = talk(request)
    assert holds(wire)
    assert breaks(wire) == []
    noted = [i for i, m in enumerate(wire.bodies[-1]["messages"]) if "[note]" in m["content"]]
    assert noted == [1, 5]  # at the beginning, and when it changed


def test_5_a_new_working_directory_is_followed_and_named() -> None:
    def request(number: int, history: list[Message]) -> list[Message]:
        place = "project" if number < 2 else "other"
        head = f"Today's date: 2026-12-30\nWorking directory: /home/me/{place}\n\nYou are an agent."
        return [system(head), *history]

    wire = talk(request)
    assert breaks(wire) == [("system_changed", 0)]
    assert "/home/me/other" in wire.bodies[2]["messages"][0]["content"]
    assert kept(wire.bodies[2], wire.bodies[3])


# -- 6: a memory that changes before what stays the same


def memory(number: int) -> str:
    return f"MEMORY: the user likes {'tea' if number < 2 else 'coffee and tea'}."


def test_6_a_changed_memory_inside_the_system_prompt_is_named() -> None:
    wire = talk(
        lambda number, history: [
            system(f"You help.\n{memory(number)}\nStatic instructions."),
            *history,
        ]
    )
    assert breaks(wire) == [("system_changed", 0)]
    event = wire.of(PrefixBroken)[0]
    assert event.lost_tokens > 30
    assert "coffee" not in event.detail  # prompts are private


def test_6_a_changed_memory_of_its_own_goes_behind_what_stays() -> None:
    wire = talk(
        lambda number, history: [
            system("You help."),
            system(memory(number)),
            system("Static."),
            *history,
        ]
    )
    assert breaks(wire) == [("system_changed", 1)]
    texts = [message["content"] for message in wire.bodies[2]["messages"][:3]]
    assert texts == ["You help.", "Static.", memory(2)]
    assert kept(wire.bodies[2], wire.bodies[3])


# -- 7: the same tools in another order, or with their properties in another order


READ = tool("read", path={"type": "string"}, limit={"type": "integer"})
LIST = tool("list", folder={"type": "string"})


def flipped(one: Message) -> Message:
    function = one["function"]
    parameters = function["parameters"]
    return {
        "type": "function",
        "function": {
            "parameters": {
                "required": parameters["required"][::-1],
                "properties": dict(reversed(parameters["properties"].items())),
                "type": "object",
            },
            "description": function["description"],
            "name": function["name"],
        },
    }


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        ([LIST, READ], "tools_reordered"),
        ([flipped(READ), LIST], "schema_key_order"),
        ([LIST, flipped(READ)], "schema_key_order"),
    ],
)
def test_7_tools_keep_their_first_form(other: list[Message], cause: str) -> None:
    wire = Wire()
    history = [system("You help."), user("Question?")]
    for number in range(4):
        wire.send(history, reply(number), tools=other if number % 2 else [READ, LIST])
        history += [reply(number), user(f"Question {number}?")]
    assert holds(wire)
    assert breaks(wire) == []
    assert causes(wire) == {cause}
    assert json.dumps(wire.bodies[-1]["tools"]) == json.dumps([READ, LIST])


# -- 9: calls and results re-serialised with their keys in another order


def test_9_a_round_trip_through_a_database_changes_nothing() -> None:
    """JSONB sorts keys by length, then by bytes, and writes them with blanks."""

    def through_jsonb(text: str) -> str:
        return json.dumps(
            dict(sorted(json.loads(text).items(), key=lambda kv: (len(kv[0]), kv[0])))
        )

    generated = call("call-1", "weather", '{"city":"Zürich","unit":"C","at":9007199254740993}')
    answer = '{"temperature": 3.50, "unit": "C", "city": "Z\\u00fcrich"}'
    wire = Wire()
    history = [system("You help."), user("Weather?")]
    wire.send(history, generated)
    history += [generated, result("call-1", answer)]
    wire.send(history, reply(1))
    stored = call(
        "call-1", "weather", through_jsonb(generated["tool_calls"][0]["function"]["arguments"])
    )
    history = [
        *history[:2],
        stored,
        result("call-1", through_jsonb(answer)),
        reply(1),
        user("And?"),
    ]
    sent = wire.send(history, reply(2))
    assert holds(wire)
    assert breaks(wire) == []
    assert identity(sent[2]) == identity(generated)
    assert sent[3]["content"] == answer


# -- 12: the user steers after an interrupted call; tools come and go; a sub-agent returns


def test_12_steering_right_behind_a_result_keeps_the_prefix() -> None:
    wire = Wire()
    history = [system("You help."), user("Do it.")]
    for number in range(3):
        made = call(f"call-{number}")
        wire.send(history, made)
        history += [made, result(f"call-{number}", "Done.")]
    wire.send([*history, user("Stop: do something else instead.")], reply(1))
    assert holds(wire)
    assert breaks(wire) == []


def test_12_tools_added_and_removed_are_named_and_the_others_keep_their_order() -> None:
    wire = Wire()
    history = [system("You help."), user("Question?")]
    extra = tool("extra")
    for number, tools in enumerate(([READ, LIST], [extra, LIST, READ], [LIST, extra])):
        wire.send(history, reply(number), tools=tools)
        history += [reply(number), user(f"Question {number}?")]
    names = [[one["function"]["name"] for one in body["tools"]] for body in wire.bodies]
    assert names == [["read", "list"], ["read", "list", "extra"], ["list", "extra"]]
    assert breaks(wire) == [("tools_changed", 0), ("tools_changed", 0)]
    assert [event.detail for event in wire.of(PrefixBroken)] == ["added extra", "removed read"]


def test_12_a_sub_agent_that_begins_with_the_same_words_disturbs_nobody() -> None:
    wire = Wire()
    main = [system("You are the main agent."), user("Count the files.")]
    wire.send(main, call("call-1", "delegate"), tools=[READ, LIST])
    before = wire.bodies[-1]
    sub = [system("You are a sub-agent."), user("Count the files.")]
    wire.send(sub, call("call-2", "list"), tools=[LIST])
    wire.send([*sub, call("call-2", "list"), result("call-2", "a b c")], reply(0), tools=[LIST])
    assert kept(wire.bodies[1], wire.bodies[2])
    main += [call("call-1", "delegate"), result("call-1", "There are three.")]
    wire.send(main, reply(1), tools=[LIST, READ])
    assert kept(before, wire.bodies[-1])
    assert breaks(wire) == []


# -- 13, 14, 15, 18: what only the template, or the tokenizer, does


def test_13_an_empty_think_block_is_no_break_of_the_agents() -> None:
    kwargs = {"enable_thinking": False}
    wire = talk(lambda _, history: [system("You help."), *history], chat_template_kwargs=kwargs)
    assert holds(wire)
    assert breaks(wire) == []
    assert all(body["chat_template_kwargs"] == kwargs for body in wire.bodies)


def test_14_an_unrelated_question_after_a_long_tool_chain_is_no_break_of_the_agents() -> None:
    wire = Wire()
    history = [system("You help."), user("Do it.")]
    for number in range(12):
        made = {**call(f"call-{number}"), "reasoning_content": f"Step {number} comes next."}
        wire.send(history, made)
        history += [made, result(f"call-{number}", f"Result {number}.")]
    wire.send(history, reply(0))
    wire.send([*history, reply(0), user("Something else: what is the time in Rome?")], reply(1))
    assert holds(wire)
    assert breaks(wire) == []


@pytest.mark.parametrize("flag", ["preserve_thinking", "clear_thinking", "drop_thinking"])
def test_15_reasoning_that_is_sent_back_stays(flag: str) -> None:
    wire = Wire()
    history = [system("You help."), user("Do it.")]
    for number in range(4):
        made = assistant(f"Answer {number}.", reasoning_content=f"Thinking of {number}.")
        wire.send(history, made, chat_template_kwargs={flag: True})
        history += [made, user(f"Question {number}?")]
    assert holds(wire)
    assert breaks(wire) == []
    assert wire.bodies[-1]["messages"][2]["reasoning_content"] == "Thinking of 0."


@pytest.mark.parametrize("text", ["a\n\nb", "```\n\n```", '{"a": "b"}}', "\n\n\n"])
def test_18_text_that_would_be_tokenised_otherwise_comes_back_as_generated(text: str) -> None:
    wire = Wire()
    wire.send([system("You help."), user("Go.")], assistant(text))
    sent = wire.send([system("You help."), user("Go."), assistant(text), user("On.")], reply(0))
    assert sent[2]["content"] == text
    assert holds(wire)
    assert breaks(wire) == []


# -- 16, 17: reasoning under another name, or stripped on the way


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_16_reasoning_goes_out_under_the_name_that_the_agent_gives_it(name: str) -> None:
    wire = Wire()
    made = assistant("Yes.", reasoning_content="Because it is so.")
    wire.send([system("You help."), user("Go.")], made)
    back = assistant("Yes.", **{name: "Because it is so."})
    sent = wire.send([system("You help."), user("Go."), back, user("On.")], reply(0))
    assert sent[2][name] == "Because it is so."
    assert holds(wire)
    assert breaks(wire) == []


def test_16_reasoning_that_an_agent_never_sends_back_is_not_added() -> None:
    wire = Wire()
    made = assistant("Yes.", reasoning_content="Because it is so.")
    wire.send([system("You help."), user("Go.")], made)
    sent = wire.send([system("You help."), user("Go."), assistant("Yes."), user("On.")], reply(0))
    assert sent[2] == assistant("Yes.")
    assert breaks(wire) == []


def test_17_reasoning_that_was_sent_once_is_not_stripped_later() -> None:
    wire = Wire()
    history = [system("You help."), user("Go.")]
    made = assistant("Yes.", reasoning_content="Because it is so.")
    wire.send(history, made)
    wire.send([*history, made, user("On.")], reply(0))
    wire.send([*history, assistant("Yes."), user("On."), reply(0), user("Further.")], reply(1))
    assert holds(wire)
    assert breaks(wire) == []
    assert PLACEHOLDER not in json.dumps(wire.bodies)
