"""Does a model get back what was shortened, and does its agent notice nothing of it?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent import Bypassed, Edited, Engine, Event, Evict, Policy, PrefixBroken, Recall, Tokens
from kvagent.backends import Fetch
from kvagent.chat import ChatReply
from kvagent.cli.connection import connect
from kvagent.events import Overflowed, TurnFinished
from kvagent.fingerprint import same_render
from kvagent.flow import Answer, Call, drive
from kvagent.recall import RECALL, TOOL, part_of
from tests.scripted import Scripted, Served, refused, tokens_of
from tests.tiny_model import SLIM, write
from tests.tokens.llamacpp import smollm2
from tests.wire import Message, call, compact, kept, result, say, tool

LONG = "\n".join(
    f"line {n}: job {n * 7919 % 100_003} took {n * 31 % 997} ms" for n in range(1, 901)
)
TOOLS = [tool("read", path={"type": "string"}), tool("run", command={"type": "string"})]
FINAL = say("assistant", "Job 7919 took 31 ms.")


def asks(handle: str, id: str = "ask-1", content: str | None = None, **part: Any) -> Message:
    return call(id, RECALL, {"handle": handle, **part}, content)


def history(content: str = LONG) -> list[Message]:
    return [
        say("system", "You help."),
        say("user", "Look."),
        call("call-1", "run", {"command": "jobs"}),
        result("call-1", content),
    ]


def recalling(**recall: Any) -> Scripted:
    return Scripted(recall=Recall(**recall))


def handle_in(messages: list[Message]) -> str:
    found = re.search(r"\br[0-9a-f]{12}\b", str(messages[3]["content"]))
    assert found is not None
    return found[0]


class Model:
    """Answers with each message in turn; one that is callable is given the handle first."""

    def __init__(self, *replies: Any, usage: Any = None) -> None:
        self.replies = list(replies)
        self.usage = usage

    def __call__(self, body: dict[str, Any]) -> Served:
        reply = self.replies.pop(0)
        if isinstance(reply, Served):
            return reply
        message = reply(handle_in(body["messages"])) if callable(reply) else reply
        prompt = tokens_of(body)
        counts = {"prompt_tokens": prompt, "completion_tokens": 20}
        return Served(message, self.usage or counts)


def told(scripted: Scripted) -> list[str]:
    """What the model was told of its questions, in the request that went out last."""
    return [
        str(message["content"])
        for message in scripted.last
        if message["role"] == "tool" and str(message["tool_call_id"]).startswith("ask")
    ]


# -- the tool


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


# -- an answer within the turn


def test_the_agent_sees_only_the_last_reply() -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(handle, lines="2-3"), FINAL)
    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    first, second = scripted.bodies
    assert kept(first, second)
    question, answer = second["messages"][len(first["messages"]) :]
    assert question["tool_calls"][0]["function"]["name"] == RECALL
    assert answer == result("ask-1", "\n".join(LONG.split("\n")[1:3]) + "\n")
    assert len(scripted.of(TurnFinished)) == 1
    assert not scripted.of(Bypassed)


def test_the_next_turn_holds_what_was_asked_and_told() -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(handle, query="line 77:"), FINAL)
    scripted.send(history(), model, tools=TOOLS)
    more = [*history(), FINAL, say("user", "And the next?")]
    scripted.send(more, tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert scripted.last[len(scripted.bodies[1]["messages"]) :] == more[-2:]
    assert not scripted.of(PrefixBroken)
    scripted.send([*more, say("assistant", "Good."), say("user", "Last one.")], tools=TOOLS)
    assert kept(scripted.bodies[2], scripted.bodies[3])


def reserialised(message: Message) -> Message:
    """As a framework gives it back that reads a reply into classes of its own."""
    calls = [
        {
            **one,
            "index": 0,
            "function": {
                **one["function"],
                "arguments": json.dumps(json.loads(one["function"]["arguments"]), indent=1),
            },
        }
        for one in message.get("tool_calls") or ()
    ]
    content = message["content"]
    parts = [{"type": "text", "text": content}] if content else content
    return {
        "content": parts,
        "refusal": None,
        "role": "assistant",
        **({"tool_calls": calls} if calls else {}),
    }


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    "final", [FINAL, call("call-2", "read", '{"path":"a.py",  "n":1}', "I will read it.")]
)
def test_through_a_framework_and_a_restart(durable: bool, final: Message, tmp_path: Path) -> None:
    def engine() -> Engine:
        store = tmp_path / "store.sqlite" if durable else None
        return Engine(Policy(probe=False, recall=Recall()), store=store)

    scripted = Scripted(engine())
    model = Model(lambda handle: asks(handle, lines="9-12"), final)
    assert scripted.send(history(), model, tools=TOOLS).reply == final
    if durable:
        scripted.engine = engine()
    more = [*history(), reserialised(final)]
    more += [result("call-2", "x = 1")] if "tool_calls" in final else [say("user", "And?")]
    scripted.send(more, tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert same_render(scripted.last[-2], final)


@pytest.mark.parametrize("indent", [None, 1])
def test_of_a_body_however_it_is_written(indent: int | None) -> None:
    def dump(body: Any) -> str:
        return json.dumps(body, indent=indent)

    scripted = recalling()
    model = Model(lambda handle: asks(handle, lines="2-3"), FINAL)
    options: dict[str, Any] = {"tools": TOOLS, "dump": dump, "seed": 7}
    assert scripted.send(history(), model, **options).reply == FINAL
    scripted.send([*history(), FINAL, say("user", "And?")], **options)
    assert all(kept(a, b) for a, b in zip(scripted.bodies, scripted.bodies[1:], strict=False))
    assert [body["seed"] for body in scripted.bodies] == [7, 7, 7]
    assert not scripted.of(Bypassed)


def test_with_a_clock_in_the_head() -> None:
    scripted = recalling()

    def at(second: int) -> list[Message]:
        clock = f"You help.\nCurrent time: 2026-03-02 09:00:0{second}"
        return [say("system", clock), *history()[1:]]

    model = Model(lambda handle: asks(handle, lines="2-3"), FINAL)
    scripted.send(at(1), model, tools=TOOLS, session="ticket-1")
    scripted.send([*at(2), FINAL, say("user", "And?")], tools=TOOLS, session="ticket-1")
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert not scripted.of(PrefixBroken)


def test_several_questions_one_after_the_other() -> None:
    scripted = recalling()
    model = Model(
        lambda handle: asks(handle, "ask-1", lines="1-2"),
        lambda handle: asks(handle, "ask-2", query="job 7919 "),
        FINAL,
    )
    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    assert all(kept(a, b) for a, b in zip(scripted.bodies, scripted.bodies[1:], strict=False))
    assert told(scripted) == [part_of(LONG, "1-2"), part_of(LONG, query="job 7919 ")]
    scripted.send([*history(), FINAL, say("user", "And?")], tools=TOOLS)
    assert kept(scripted.bodies[2], scripted.bodies[3])


def test_whoever_asks_on_and_on_is_told_to_stop() -> None:
    scripted = recalling(max_calls=2)
    asking = [lambda handle, n=n: asks(handle, f"ask-{n}", lines=f"{n}") for n in range(1, 9)]
    served = scripted.send(history(), Model(*asking), tools=TOOLS)
    assert served.reply is not None, "what it asks then is the agent's business"
    assert served.reply["tool_calls"][0]["id"] == "ask-4"
    assert told(scripted)[:2] == [part_of(LONG, "1"), part_of(LONG, "2")]
    assert "asked often enough" in told(scripted)[2]
    scripted = recalling(max_calls=2)
    assert scripted.send(history(), Model(*asking[:3], FINAL), tools=TOOLS).reply == FINAL


def test_other_calls_beside_it_are_to_be_made_again() -> None:
    scripted = recalling()

    def both(handle: str) -> Message:
        asked = asks(handle, lines="5")
        asked["tool_calls"] += call("call-2", "read", {"path": "a.py"})["tool_calls"]
        return asked

    final = call("call-3", "read", {"path": "a.py"})
    assert scripted.send(history(), Model(both, final), tools=TOOLS).reply == final
    assert [one["id"] for one in scripted.last[-2]["tool_calls"]] == ["ask-1"]
    scripted.send([*history(), final, result("call-3", "x = 1")], tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])


def test_two_questions_at_once() -> None:
    scripted = recalling()

    def both(handle: str) -> Message:
        asked = asks(handle, "ask-1", lines="5")
        asked["tool_calls"] += asks(handle, "ask-2", lines="6-7")["tool_calls"]
        return asked

    assert scripted.send(history(), Model(both, FINAL), tools=TOOLS).reply == FINAL
    assert told(scripted) == [part_of(LONG, "5"), part_of(LONG, "6-7")]


def test_an_ordinary_call_goes_to_the_agent() -> None:
    scripted = recalling()
    ordinary = call("call-2", "read", {"path": "a.py"})
    assert scripted.send(history(), ordinary, tools=TOOLS).reply == ordinary
    assert len(scripted.bodies) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"handle": "r000000000000"}, "keeps no original under 'r000000000000'"),
        ({"handle": "the log"}, "give the handle as it stands in the text"),
        ({}, "give the handle as it stands in the text"),
        ({"handle": None}, "give the handle as it stands in the text"),
        ("[]", "give the arguments as an object"),
        ("", "the arguments are not JSON"),
        ('{"handle": "r00', "the arguments are not JSON"),
    ],
)
def test_a_mistake_is_told_the_model(arguments: Any, says: str) -> None:
    scripted = recalling()
    asked = call("ask-1", RECALL)
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    asked["tool_calls"][0]["function"]["arguments"] = written
    assert scripted.send(history(), Model(asked, FINAL), tools=TOOLS).reply == FINAL
    assert says in told(scripted)[0]
    assert not scripted.of(Bypassed)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"lines": "0-4"}, "lines count from 1"),
        ({"lines": "7-4"}, "the last is not before the first"),
        ({"lines": "the end"}, "write the first and the last line"),
        ({"lines": "5000-6000"}, "the text has 900 lines"),
        ({"query": "no such thing"}, "no line holds that"),
    ],
)
def test_what_it_does_not_have_is_told_the_model(part: dict[str, Any], says: str) -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(handle, **part), FINAL)
    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    assert says in told(scripted)[0]


@pytest.mark.parametrize("written", ['recall("{}")', " {} ", "handle={}, all of it"])
def test_a_handle_however_it_is_written(written: str) -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(written.format(handle), lines=5), FINAL)
    scripted.send(history(), model, tools=TOOLS)
    assert told(scripted) == [part_of(LONG, 5)]


def test_a_long_original_comes_piece_by_piece() -> None:
    """Each piece says what to ask for next, so that all of it can be had."""
    scripted = recalling(max_calls=60, max_tokens=1_000)
    pieces: list[str] = []

    def model(body: dict[str, Any]) -> Served:
        answer = body["messages"][-1]
        part: dict[str, Any] = {}
        if answer.get("tool_call_id") == "ask-1":
            note, _, piece = answer["content"].partition("\n")
            if not note.startswith("[kvagent: "):
                pieces.append(answer["content"])
                return Served(FINAL)
            pieces.append(piece)
            part = {"lines": note.split('lines="')[1].split('"')[0]}
        return Served(asks(handle_in(body["messages"]), **part))

    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    assert "\n".join(pieces) == LONG
    assert len(pieces) > 5


def test_a_long_line_is_told_as_far_as_it_goes() -> None:
    long = json.dumps([{"id": n, "name": f"row {n}"} for n in range(4_000)])
    scripted = recalling(max_tokens=500)
    assert scripted.send(history(long), Model(asks_all, FINAL), tools=TOOLS).reply == FINAL
    assert 200 < len(told(scripted)[0]) < 4_000
    assert "row 1" in told(scripted)[0]


def asks_all(handle: str) -> Message:
    return asks(handle)


def test_many_lines_found_say_how_many_there_are() -> None:
    scripted = recalling(max_tokens=500)
    model = Model(lambda handle: asks(handle, query="job"), FINAL)
    scripted.send(history(), model, tools=TOOLS)
    first, *lines = told(scripted)[0].split("\n")
    assert f"the first {len(lines)} of 900 lines found" in first
    assert lines[0].startswith("1:line 1: job")


def test_only_so_much_is_told_as_the_window_has_room_for() -> None:
    scripted = Scripted(recall=Recall(), window=4_000)
    assert scripted.send(history(), Model(asks_all, FINAL), tools=TOOLS).reply == FINAL
    assert 500 < len(told(scripted)[0]) < len(LONG) / 2
    assert max(map(tokens_of, scripted.bodies)) < 4_000


def test_where_there_is_no_room_the_model_is_told_so() -> None:
    scripted = Scripted(recall=Recall(), window=2_000)
    full = {"prompt_tokens": 1_890, "completion_tokens": 10}
    assert scripted.send(history(), Model(asks_all, FINAL, usage=full), tools=TOOLS).reply == FINAL
    assert "there is no room for so much now" in told(scripted)[0]


def test_a_text_that_does_not_fit_after_all_is_taken_back() -> None:
    """Nobody knew how large the window is."""
    scripted = recalling()

    def server(body: dict[str, Any]) -> Served:
        prompt = tokens_of(body)
        if prompt > 3_000:
            message = f"request ({prompt} tokens) exceeds the available context size (3000 tokens)"
            return refused(message)
        asked = len(body["messages"]) == 4
        return Served(asks(handle_in(body["messages"])) if asked else FINAL)

    assert scripted.send(history(), server, tools=TOOLS).reply == FINAL
    assert len(scripted.bodies) == 3
    assert "there is no room for so much now" in told(scripted)[0]
    assert len(scripted.of(Overflowed)) == 1
    scripted.send([*history(), FINAL, say("user", "And?")], tools=TOOLS)
    assert kept(scripted.bodies[2], scripted.bodies[3])


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


def test_several_choices_are_the_agents() -> None:
    engine = Engine(Policy(probe=False, recall=Recall()))
    body = compact({"messages": history(), "model": "m", "tools": TOOLS, "n": 2}).encode()

    def answer(call: Call) -> tuple[Answer, bytes]:
        return Answer(200), call.body

    sent, settle = drive(engine.turn(body), answer)
    asked = asks(handle_in(json.loads(sent)["messages"]))
    assert settle(ChatReply((asked, dict(FINAL)), {}, complete=True), None) is None


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


# -- streams: the caller has the text that came before the question


def test_text_before_a_question_is_a_part_of_the_reply_in_a_stream() -> None:
    scripted = recalling()

    def asking(handle: str) -> Message:
        return asks(handle, content="Let me look. ", lines="4")

    scripted.send(history(), Model(asking, FINAL), tools=TOOLS, stream=True)
    had = say("assistant", "Let me look. " + FINAL["content"])
    scripted.send([*history(), had, say("user", "And?")], tools=TOOLS, stream=True)
    assert kept(scripted.bodies[1], scripted.bodies[2])
    assert scripted.last[-2] == FINAL
    assert not scripted.of(PrefixBroken)


def test_without_a_stream_the_caller_has_the_last_text_alone() -> None:
    scripted = recalling()

    def asking(handle: str) -> Message:
        return asks(handle, content="Let me look. ", lines="4")

    scripted.send(history(), Model(asking, FINAL), tools=TOOLS)
    scripted.send([*history(), FINAL, say("user", "And?")], tools=TOOLS)
    assert kept(scripted.bodies[1], scripted.bodies[2])


# -- what is known of the prompt afterwards


def test_what_was_told_is_counted_once() -> None:
    scripted = recalling()
    messages = history()
    for turn in range(6):
        model = Model(lambda handle: asks(handle, lines="1-200"), say("assistant", f"So {turn}."))
        scripted.send(messages, model, tools=TOOLS)
        messages = [*messages, say("assistant", f"So {turn}."), say("user", f"And {turn}?")]
    assert not scripted.of(Overflowed)
    assert not scripted.of(PrefixBroken)
    finished = scripted.of(TurnFinished)
    assert [event.turn for event in finished] == [1, 2, 3, 4, 5, 6]
    assert scripted.engine.meter.scale < 1.5
    ends = scripted.bodies[1::2]
    for event, body in zip(finished, ends, strict=True):
        assert event.prompt_tokens == tokens_of(body)
    assert all(kept(a, b) for a, b in zip(scripted.bodies, scripted.bodies[1:], strict=False))


def test_without_counts_the_estimates_hold_what_was_told() -> None:
    scripted = Scripted(recall=Recall(), window=12_000)
    messages = history()
    scripted.send(messages, say("assistant", "So."), tools=TOOLS)
    handle = handle_in(scripted.last)
    for turn in range(8):
        model = Model(
            asks(handle, lines="1-120"),
            say("assistant", f"So {turn}."),
            usage={"x": 1},
        )
        scripted.send(messages, model, tools=TOOLS)
        messages = [*messages, say("assistant", f"So {turn}."), say("user", f"And {turn}?")]
    assert max(map(tokens_of, scripted.bodies)) <= 12_000


# -- answered by the agent


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


def test_clearing_leaves_what_was_recalled_alone() -> None:
    scripted = Scripted(recall=Recall(answer="agent"), window=20_000, compact=None)
    scripted.send(history(), FINAL, tools=TOOLS)
    asked = asks(handle_in(scripted.last), "ask-1", lines="1-100")
    messages = [*history(), asked, result("ask-1", part_of(LONG, "1-100"))]
    for n in range(24):
        text = "\n".join(f"{n}.{at} {at * n * 7919 % 99_991}" for at in range(140))
        messages += [call(f"c{n}", "read", {"path": f"{n}.py"}), result(f"c{n}", text)]
        scripted.send(messages, tools=TOOLS)
    assert [edit for edit in scripted.of(Edited) if edit.stage == "clear"]
    assert scripted.last[5] == messages[5]


def test_clearing_leaves_what_was_told_within_a_turn_alone() -> None:
    """The agent's text around it may be cleared."""
    scripted = Scripted(recall=Recall(), window=8_000, compact=None)
    long = say(
        "assistant", "So.\n" + "\n".join(f"{n}: seen {n * 7919 % 99_991}" for n in range(150))
    )
    model = Model(lambda handle: asks(handle, lines="1-40"), long)
    scripted.send(history(), model, tools=TOOLS)
    messages = [*history(), long, say("user", "Go on.")]
    for n in range(12):
        text = "\n".join(f"{n}.{at} {at * n * 7919 % 99_991}" for at in range(100))
        messages += [call(f"c{n}", "read", {"path": f"{n}.py"}), result(f"c{n}", text)]
        scripted.send(messages, tools=TOOLS)
    assert [edit for edit in scripted.of(Edited) if edit.stage == "clear"]
    assert len(str(scripted.last[6]["content"])) < len(long["content"])
    assert scripted.last[4:6] == scripted.bodies[1]["messages"][4:6]
    assert told(scripted) == [part_of(LONG, "1-40")]


def faults(messages: list[Message]) -> list[object]:
    """Calls without a result behind them, and results without their call."""
    found: list[object] = []
    waiting: set[object] = set()
    for message in messages:
        if message["role"] == "tool":
            name = message["tool_call_id"]
            found += [] if name in waiting else [name]
            waiting.discard(name)
        else:
            found += waiting
            waiting = {one["id"] for one in message.get("tool_calls") or ()}
    return found + sorted(waiting, key=str)


@pytest.mark.parametrize("durable", [False, True])
def test_in_a_small_window_every_request_is_valid_and_fits(durable: bool, tmp_path: Path) -> None:
    policy = Policy(probe=False, recall=Recall(max_tokens=800), window=5_000)
    events: list[Event] = []
    store = tmp_path / "store.sqlite" if durable else None
    scripted = Scripted(Engine(policy, store=store, on_event=events.append))
    messages = history()
    scripted.send(messages, say("assistant", "So."), tools=TOOLS)
    handle = handle_in(scripted.last)
    messages += [say("assistant", "So."), say("user", "Go on.")]
    for turn in range(20):
        final = call(f"c{turn}", "read", {"path": f"{turn}.py"}, f"Now {turn}.")
        asked = asks(handle, f"ask-{turn}", lines=f"{turn * 20 + 1}-{turn * 20 + 30}")
        scripted.send(messages, Model(asked, final), tools=TOOLS)
        text = "\n".join(f"{turn}.{at} {at * turn * 7919 % 99_991}" for at in range(40))
        messages += [final, result(f"c{turn}", text)]
    assert {event.stage for event in events if isinstance(event, Edited)} >= {"compact"}
    assert not [event for event in events if isinstance(event, PrefixBroken | Bypassed)]
    assert [faults(body["messages"]) for body in scripted.bodies] == [[]] * len(scripted.bodies)
    assert max(map(tokens_of, scripted.bodies)) < 5_000


# -- the API


@pytest.mark.parametrize(
    "text",
    [
        "a\r\nb\r\nc",
        "a\nb\n",
        "ä🙂\u2028x\n\nb\x00\x1b[31m",
        "one line",
        "\n\n \nx",
        "\ufeffa\n",
    ],
)
def test_a_text_comes_back_to_the_byte(text: str) -> None:
    scripted = Scripted(evict=Evict(trigger=Tokens(10), keep=200))
    long = text * 3_000
    scripted.send(history(long))
    assert scripted.engine.recall(handle_in(scripted.last)) == long


TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=8),
    min_size=1,
    max_size=9,
).map("\n".join)


@given(TEXTS, st.data())
def test_lines_put_together_are_the_text(text: str, data: Any) -> None:
    count = len(text.removesuffix("\n").split("\n")) if text else 0
    if not count:
        return
    cuts = sorted(data.draw(st.sets(st.integers(2, count), max_size=4))) if count > 1 else []
    spans = list(zip([1, *cuts], [*(cut - 1 for cut in cuts), count], strict=True))
    assert "".join(part_of(text, span) for span in spans) == text
    assert "".join(part_of(text, f"{first}-{last}") for first, last in spans) == text


@given(TEXTS, st.text(max_size=3))
def test_lines_found_are_those_that_hold_the_words(text: str, query: str) -> None:
    found = part_of(text, query=query)
    lines = text.removesuffix("\n").split("\n")
    held = [n for n, line in enumerate(lines, 1) if query.casefold() in line.casefold()]
    expected = "\n".join(f"{n}:{lines[n - 1]}" for n in held) if text else ""
    assert found == expected


@pytest.mark.parametrize("lines", ["2-3", "2–3", "2:3", "2,3", "2 to 3", " 2 - 3 ", (2, 3)])
def test_lines_however_they_are_named(lines: Any) -> None:
    assert part_of("a\nb\nc\nd", lines) == "b\nc\n"


def test_the_end_may_lie_behind_the_end() -> None:
    assert part_of("a\nb", "2-99") == "b"
    assert part_of("a\nb\n", "2-99") == "b\n"


@pytest.mark.parametrize("lines", ["0", "3-2", "-1", "a-b", "1-2-3", "", (0, 1), (5, 5), 9])
def test_lines_that_are_none_are_refused(lines: Any) -> None:
    with pytest.raises(ValueError, match="lines"):
        part_of("a\nb\n", lines)


def test_lines_and_query_together() -> None:
    assert part_of("ab\nb\nabc\n", "2-3", "A") == "3:abc"


# -- where it is kept


def test_a_handle_survives_a_restart(tmp_path: Path) -> None:
    def engine() -> Engine:
        return Engine(Policy(probe=False), store=tmp_path / "store.sqlite")

    scripted = Scripted(engine())
    scripted.send(history())
    assert engine().recall(handle_in(scripted.last), lines=7) == "line 7: job 55433 took 217 ms\n"


def test_another_tenant_is_told_nothing(tmp_path: Path) -> None:
    def engine(namespace: str) -> Engine:
        policy = Policy(probe=False, recall=Recall())
        return Engine(policy, store=tmp_path / "store.sqlite", namespace=namespace)

    scripted = Scripted(engine("one"))
    scripted.send(history(), tools=TOOLS)
    handle = handle_in(scripted.last)
    other = Scripted(engine("two"))
    with pytest.raises(KeyError, match="keeps no original"):
        other.engine.recall(handle)
    other.send([say("user", "Hello.")], Model(asks(handle), FINAL), tools=TOOLS)
    assert "keeps no original" in told(other)[0]
    assert "job" not in told(other)[0]
    with pytest.raises(KeyError):
        scripted.engine.recall(handle, namespace="two")
    assert other.engine.recall(handle, namespace="one") == LONG


# -- a real server


def test_a_real_server_has_it_all_in_its_cache(tmp_path: Path) -> None:
    """The first question is put in its mouth: so small a model calls no tool."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp

    model = write(tmp_path / "tiny.gguf", smollm2(), SLIM)
    scripted = recalling()
    counts: list[dict[str, Any]] = []
    with LlamaCpp(model, CHAT_TEMPLATE, n_ctx=16_384, threads=1, parse_tool_calls=False) as running:
        connection = connect(running.base_url)

        def server(body: dict[str, Any]) -> Served:
            answer = connection.fetch(Fetch("/chat/completions", "api", {**body, "max_tokens": 4}))
            assert answer.status == 200, answer.body
            reply = orjson.loads(answer.body)
            counts.append(reply["usage"])
            message = reply["choices"][0]["message"]
            if len(counts) == 1:
                message = asks(handle_in(body["messages"]), lines="1-90")
            return Served(message, reply["usage"])

        served = scripted.send(history(), server, tools=TOOLS)
        assert served.reply is not None
        more = [*history(), reserialised(served.reply), say("user", "And?")]
        scripted.send(more, server, tools=TOOLS)
    first, second, third = counts
    assert second["prompt_tokens"] > first["prompt_tokens"] + 1_000
    for before, after in ((first, second), (second, third)):
        cached = after["prompt_tokens_details"]["cached_tokens"]
        assert cached >= before["prompt_tokens"] - 8
    assert third["prompt_tokens"] - second["prompt_tokens"] < 60
