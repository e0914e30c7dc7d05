"""Do the messages that the model is handed stand for what the engine wants to send?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from kvagent import Edited, Engine, Event, Policy, Recall
from kvagent.chat import with_text_appended
from kvagent.clearing.passages import arguments_at, replaced, texts_at
from kvagent.fingerprint import identity, meaning
from kvagent.flow import Answer, Call, drive
from kvagent_langchain import view, wire

from .messages import conversations, message_lists, texts

Wire = dict[str, Any]

rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)


def form(message: BaseMessage, as_generated: bool = False) -> Wire:
    sent = wire.message(message)
    return wire.as_generated(message, sent) if as_generated else sent


def pairs(messages: Sequence[BaseMessage], as_generated: bool = False) -> list[view.Came]:
    return [(form(message, as_generated), message) for message in messages]


def kept(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The same with the calls as they were generated kept beside."""
    found = []
    for message in messages:
        if isinstance(message, AIMessage) and message.tool_calls:
            raw = [
                wire.call(c["id"], c["name"], json.dumps(c["args"], separators=(",", ":")))
                for c in message.tool_calls
            ]
            message = message.model_copy(update={"additional_kwargs": {"tool_calls": raw}})
        found.append(message)
    return found


def again(message: Mapping[str, Any]) -> Wire:
    """The message as it comes out of the engine: read from bytes."""
    copy: Wire = orjson.loads(identity(message))
    return copy


@rule
@given(messages=message_lists, as_generated=st.booleans())
def test_what_is_unchanged_is_the_very_object(
    messages: list[BaseMessage], as_generated: bool
) -> None:
    before = pairs(messages, as_generated)
    try:
        wanted = [again(sent) for sent, _ in before]
    except TypeError:  # the engine reads no such numbers
        return
    result = view.messages(wanted, before, as_generated=as_generated)
    assert [id(message) for message in result] == [id(message) for message in messages]


@st.composite
def edited(draw: st.DrawFn, came: Sequence[Wire]) -> list[Wire]:
    """What the engine may make of messages, with each of its edits now and then."""

    def now_and_then() -> bool:
        return draw(st.booleans())

    def other() -> str:
        return "✂" + draw(texts)  # which none of those that came begins with

    wanted = [again(message) for message in came]
    head = 1 if came[0]["role"] == "system" else 0
    for at, message in enumerate(wanted):
        if now_and_then():
            continue
        if message["role"] == "system":
            wanted[at] = {**message, "content": other()}
        elif message["role"] == "user":
            wanted[at] = with_text_appended(message, "\n\n[note] " + other())
        else:
            places = [place for place, _ in (*texts_at(message), *arguments_at(message))]
            wanted[at] = replaced(message, {p: other() for p in places if now_and_then()})
    cuts = [at for at, m in enumerate(wanted) if at > head and m["role"] in ("assistant", "user")]
    if cuts and now_and_then():
        cut = draw(st.sampled_from(cuts))
        record = with_text_appended(wanted[head], "\n\nwhat happened: " + other())
        wanted = [*wanted[:head], record, *wanted[cut:]]
    if now_and_then():
        at = draw(st.integers(head + 1, len(wanted)))
        asked = wire.call("recall_1", "kvagent_recall", '{"handle":"r0123456789ab"}')
        wanted[at:at] = [
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": asked["id"], "content": other()},
        ]
    if now_and_then():
        wanted.insert(0, {"role": draw(st.sampled_from(["system", "developer"])), "content": "✂"})
    return wanted


@rule
@given(data=st.data(), messages=conversations(), as_generated=st.booleans())
def test_edits_of_the_engine_reach_the_model(
    data: st.DataObject, messages: list[BaseMessage], as_generated: bool
) -> None:
    messages = kept(messages) if as_generated else messages
    before = pairs(messages, as_generated)
    wanted = data.draw(edited([sent for sent, _ in before]))
    untouched = deepcopy(messages)
    wanted_before = deepcopy(wanted)
    result = view.messages(wanted, before, as_generated=as_generated)
    assert messages == untouched
    assert wanted == wanted_before
    forms = [identity(sent) for sent, _ in before]
    for asked, message in zip(wanted, result, strict=True):
        sent = form(message, as_generated)
        assert meaning(sent) == meaning(asked)
        if as_generated or "tool_calls" not in asked:  # else arguments are written otherwise
            assert sent == {**asked, "content": asked["content"] or sent["content"]}
        if forms.count(identity(asked)) == 1 == sum(asked == each for each in wanted):
            assert message is messages[forms.index(identity(asked))]
        if isinstance(message, AIMessage):
            assert [
                {"name": call["name"], "id": call["id"], "args": call["args"]}
                for call in message.tool_calls
            ] == [
                {
                    "name": call["function"]["name"],
                    "id": call["id"],
                    "args": json.loads(call["function"]["arguments"]),
                }
                for call in asked.get("tool_calls") or ()
            ]


@rule
@given(data=st.data(), messages=message_lists)
def test_shorter_texts_reach_the_model_in_any_kind_of_message(
    data: st.DataObject, messages: list[BaseMessage]
) -> None:
    before = pairs(messages)
    try:
        wanted = [again(sent) for sent, _ in before]
    except TypeError:
        return
    for at, asked in enumerate(wanted):
        places = [place for place, _ in texts_at(asked) if data.draw(st.booleans())]
        wanted[at] = replaced(asked, {place: data.draw(texts) for place in places})
    untouched = deepcopy(messages)
    result = view.messages(wanted, before)
    assert messages == untouched
    for asked, message in zip(wanted, result, strict=True):
        assert meaning(form(message)) == meaning(asked)


def test_a_cleared_result_keeps_what_the_model_is_not_sent() -> None:
    result = ToolMessage(
        "a long text",
        tool_call_id="call_1",
        name="read",
        id="m1",
        status="error",
        artifact={"whole": [1]},
    )
    (copy,) = view.messages([{**form(result), "content": "short"}], pairs([result]))
    assert copy == result.model_copy(update={"content": "short"})
    assert isinstance(copy, ToolMessage)
    assert copy.artifact is result.artifact
    assert result.content == "a long text"


def test_a_shortened_answer_keeps_what_it_thought() -> None:
    call = {"name": "write", "args": {"path": "a", "text": "long " * 9}, "id": "call_1"}
    answer = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "I write a long text.", "annotations": []},
            {"type": "tool_use", "id": "call_1", "name": "write", "input": call["args"]},
        ],
        tool_calls=[call],
        id="m1",
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    wanted = replaced(
        again(form(answer)),
        {
            ("content", 0, "text"): "I write.",
            ("tool_calls", 0, "function", "arguments", "text"): "short",
        },
    )
    (copy,) = view.messages([wanted], pairs([answer]))
    assert isinstance(copy, AIMessage)
    args = {"path": "a", "text": "short"}
    assert copy.content == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "I write."},
        {"type": "tool_use", "id": "call_1", "name": "write", "input": args},
    ]
    assert [c["args"] for c in copy.tool_calls] == [args]
    assert (copy.id, copy.usage_metadata) == ("m1", answer.usage_metadata)
    assert answer.tool_calls[0]["args"] == call["args"]
    assert answer.content[2]["input"] == call["args"]  # type: ignore[index]


def test_calls_stay_in_the_order_in_which_they_were_generated() -> None:
    raw = [
        wire.call("call_1", "read", '{"path":"a'),
        wire.call("call_2", "read", '{"path":"b"}'),
        wire.call("call_3", "read", ""),
    ]
    wanted: Wire = {"role": "assistant", "content": None, "tool_calls": raw}
    (made,) = view.messages([wanted], [], as_generated=True)
    assert form(made, as_generated=True) == wanted
    assert isinstance(made, AIMessage)
    assert [c["id"] for c in made.tool_calls] == ["call_2", "call_3"]
    assert [c["id"] for c in made.invalid_tool_calls] == ["call_1"]


def test_a_call_nobody_could_read_stays_one() -> None:
    answer = AIMessage(
        "I look at it.",
        tool_calls=[{"name": "write", "args": {"text": "long"}, "id": "call_1"}],
        invalid_tool_calls=[{"name": "x", "args": None, "id": "call_2", "error": "no JSON"}],
    )
    wanted = replaced(
        again(form(answer)), {("tool_calls", 0, "function", "arguments", "text"): "s"}
    )
    (copy,) = view.messages([wanted], pairs([answer]))
    assert isinstance(copy, AIMessage)
    assert copy.invalid_tool_calls == answer.invalid_tool_calls
    assert copy.tool_calls[0]["args"] == {"text": "s"}


def test_a_changed_chunk_says_its_calls_once() -> None:
    chunk = AIMessageChunk(
        content="",
        tool_call_chunks=[
            {"name": "write", "args": '{"text": "long"}', "id": "call_1", "index": 0}
        ],
    )
    wanted = replaced(again(form(chunk)), {("tool_calls", 0, "function", "arguments", "text"): "s"})
    (copy,) = view.messages([wanted], pairs([chunk]))
    assert isinstance(copy, AIMessageChunk)
    assert copy.tool_calls[0]["args"] == {"text": "s"}
    read_again = AIMessageChunk(**copy.model_dump())
    assert read_again.tool_calls == copy.tool_calls
    assert chunk.tool_calls[0]["args"] == {"text": "long"}


def test_reasoning_comes_and_goes_where_the_model_sends_it() -> None:
    answer = AIMessage("42", additional_kwargs={"reasoning_content": "6*7", "refusal": None})
    plain = again(form(answer))
    (without,) = view.messages([plain], pairs([answer], as_generated=True), as_generated=True)
    assert without.additional_kwargs == {"refusal": None}
    (back,) = view.messages(
        [{**plain, "reasoning_content": "6*7"}], [(plain, without)], as_generated=True
    )
    assert form(back, as_generated=True) == {**plain, "reasoning_content": "6*7"}
    # a model that does not send it keeps its message
    (same,) = view.messages([plain], pairs([answer]))
    assert same is answer


def test_results_of_one_call_id_stand_where_they_stood() -> None:
    """Some servers number the calls of each answer anew."""
    call = {"name": "read", "args": {}, "id": "call_0"}
    turns: list[BaseMessage] = [HumanMessage("go")]
    for n in range(4):
        turns += [
            AIMessage(f"turn {n}", tool_calls=[call], id=f"a{n}"),
            ToolMessage(f"result {n}", tool_call_id="call_0", id=f"t{n}"),
        ]
    before = pairs(turns)
    wanted = [again(sent) for sent, _ in before]
    wanted[6] = {**wanted[6], "content": "cleared"}
    del wanted[1:5]
    assert [message.id for message in view.messages(wanted, before)] == [
        *(None, "a2", "t2", "a3", "t3")
    ]


def test_old_turns_leave_and_the_task_stays_the_task() -> None:
    messages = [
        HumanMessage("Talk to me.", id="u1"),
        AIMessage("What about?", id="a1"),
        HumanMessage("Anything.", id="u2"),
        AIMessage("A long story.", id="a2"),
        HumanMessage("Go on.", id="u3"),
    ]
    before = pairs(messages)
    wanted = [again(sent) for sent, _ in before]
    wanted = [
        {**wanted[0], "content": "Talk to me.\n\nThey talked."},
        {**wanted[3], "content": "A story."},
        wanted[4],
    ]
    result = view.messages(wanted, before)
    assert [message.id for message in result] == ["u1", "a2", "u3"]
    assert [form(message) for message in result] == wanted


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ({"role": "system", "content": "a"}, SystemMessage),
        ({"role": "developer", "content": "a"}, SystemMessage),
        ({"role": "user", "content": [{"type": "text", "text": "a"}], "name": "n"}, HumanMessage),
        ({"role": "assistant", "content": "a"}, AIMessage),
        ({"role": "tool", "content": "a", "tool_call_id": "call_1"}, ToolMessage),
        ({"role": "function", "content": "a", "name": "f"}, FunctionMessage),
        ({"role": "critic", "content": "a"}, ChatMessage),
        (
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            },
            AIMessage,
        ),
    ],
)
def test_what_never_came_is_new(wanted: Wire, kind: type[BaseMessage]) -> None:
    before = pairs([HumanMessage("a", id="m1"), AIMessage("b")])
    *_, made = view.messages([*(again(sent) for sent, _ in before), wanted], before)
    assert type(made) is kind
    assert form(made) == wanted
    assert made.id is None


def test_a_new_result_is_named_after_its_call() -> None:
    asked = wire.call("call_9", "kvagent_recall", "{}")
    _, result = view.messages(
        [
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": "call_9", "content": "a"},
        ],
        [],
    )
    assert result.name == "kvagent_recall"


class Agent:
    """An agent whose messages go through an engine, and whose model sees only the view."""

    def __init__(self, as_generated: bool, **policy: Any) -> None:
        self.events: list[Event] = []
        policy = {"probe": False, **policy}
        self.engine = Engine(Policy(**policy), on_event=self.events.append)
        self.as_generated = as_generated
        self.wanted: list[list[Wire]] = []
        self.seen: list[list[BaseMessage]] = []

    def ask(self, messages: Sequence[BaseMessage], *answers: AIMessage) -> AIMessage:
        before = pairs(messages, self.as_generated)
        body = {"model": "m", "messages": [sent for sent, _ in before], "tools": [READ]}
        left = list(answers)

        def deliver(call: Call) -> tuple[Answer, AIMessage]:
            self.wanted.append(orjson.loads(call.body)["messages"])
            self.seen.append(view.messages(self.wanted[-1], before, as_generated=self.as_generated))
            return Answer(200), left.pop(0)

        answer, settle = drive(self.engine.turn(orjson.dumps(body)), deliver)
        while True:
            more = settle(wire.reply(answer, as_generated=self.as_generated), None)
            if more is None:
                return answer
            answer, settle = drive(more, deliver)

    @property
    def stages(self) -> set[str]:
        return {event.stage for event in self.events if isinstance(event, Edited)}


READ = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {}}},
}


def text_about(turn: int, lines: int) -> str:
    return "\n".join(
        f"{turn}.{line} warning: value_{turn * line} of module_{line} differs by {line * 7}"
        for line in range(lines)
    )


@pytest.mark.parametrize("as_generated", [False, True])
def test_a_long_conversation_through_an_engine_reaches_the_model(as_generated: bool) -> None:
    agent = Agent(as_generated, window=3_000)
    messages: list[BaseMessage] = [
        SystemMessage("You read files.", id="s"),
        HumanMessage("Find what differs.", id="u"),
    ]
    for turn in range(30):
        arguments = f'{{"path":"{turn}.py","note":"{"why " * 60}"}}'
        answer = AIMessage(
            f"Now file {turn}.",
            id=f"a{turn}",
            tool_calls=[{"name": "read", "args": json.loads(arguments), "id": f"call_{turn}"}],
        )
        if as_generated:
            raw = [wire.call(f"call_{turn}", "read", arguments)]
            answer.additional_kwargs["tool_calls"] = raw
        untouched = deepcopy(messages)
        answer = agent.ask(messages, answer)
        assert messages == untouched
        messages += [
            answer,
            ToolMessage(text_about(turn, 15), tool_call_id=f"call_{turn}", id=f"t{turn}"),
        ]
    assert {"clear", "compact"} <= agent.stages
    for wanted, seen in zip(agent.wanted, agent.seen, strict=True):
        sent = [form(message, as_generated) for message in seen]
        assert list(map(meaning, sent)) == list(map(meaning, wanted))
        if as_generated:
            assert sent == wanted
    own = {id(message) for message in messages}
    last = agent.seen[-1]
    assert id(last[0]) in own
    assert id(last[1]) not in own, "the record of old turns stands in a copy"
    assert last[1].id == "u"
    assert id(last[-1]) in own
    assert {message.id for message in last} <= {message.id for message in messages}


def test_what_was_recalled_stands_where_the_model_asked_for_it() -> None:
    agent = Agent(as_generated=True, window=8_000, recall=Recall())
    messages: list[BaseMessage] = [HumanMessage("Look.", id="u")]
    call = {"name": "read", "args": {}, "id": "call_1"}
    messages.append(agent.ask(messages, AIMessage("", tool_calls=[call], id="a")))
    messages.append(ToolMessage(text_about(3, 400), tool_call_id="call_1", id="t"))
    asking = {"handle": "r0123456789ab", "query": "3.7 "}
    asked = AIMessage(
        "", tool_calls=[{"name": "kvagent_recall", "args": asking, "id": "call_r"}], id="r"
    )
    answer = agent.ask(messages, asked, AIMessage("Found.", id="b"))
    assert answer.content == "Found."
    seen = agent.seen[-1]
    kinds = [HumanMessage, AIMessage, ToolMessage, AIMessage, ToolMessage]
    assert [type(message) for message in seen] == kinds
    assert [message.id for message in seen] == ["u", "a", "t", None, None]
    assert [form(message, as_generated=True) for message in seen] == agent.wanted[-1]
    messages += [answer, HumanMessage("And now?", id="v")]
    agent.ask(messages, AIMessage("Done."))
    assert [message.id for message in agent.seen[-1]] == ["u", "a", "t", None, None, "b", "v"]
