"""Does the meter count what models report, name what breaks a prefix, and leave everything as it was?"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from io import StringIO
from itertools import pairwise
from os.path import commonprefix
from threading import Lock
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_core.caches import InMemoryCache
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field, PrivateAttr
from rich.console import Console

import kvagent
from integrations.openai.tests.null_server import (
    Answer,
    NullServer,
    completion,
    events,
    sse,
)
from kvagent import Event, Overflowed, PrefixBroken, TurnFinished, WindowFilling
from kvagent.events import Cause, MissCause
from kvagent_langchain import counts, meter
from kvagent_langchain.meter import KVMeter, MissingUsageWarning, kv_meter
from kvagent_langchain.report import CAUSES
from kvagent_langchain.tally import Conversation

from .messages import conversations

TOKEN = 4
"""Characters of a token."""

Head = Callable[[int], list[BaseMessage]]
Edit = Callable[[list[BaseMessage], int], list[BaseMessage]]


def common(one: str, other: str) -> int:
    return len(commonprefix((one, other)))  # noqa: RUF071 - characters are meant, not paths


class CachingModel(BaseChatModel):
    """A model whose server caches every prompt and every reply, and says how much it took from there."""

    model: str = "caching-7b"
    reports: str = "all"
    """``all``, ``no_cached`` or ``nothing``."""
    failing: int = 0
    """How many of the next requests fail."""
    calls: list[dict[str, Any]] = Field(default_factory=list)
    """Of the next replies."""

    _kept: list[str] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)
    _made: int = 0

    @property
    def _llm_type(self) -> str:
        return "caching"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self.bind(tools=list(tools), **options)

    def _reply(self, messages: list[BaseMessage], options: dict[str, Any]) -> AIMessage:
        with self._lock:
            if self.failing:
                self.failing -= 1
                raise ConnectionError("the server went away")
            prompt = json.dumps([str(options.get("tools")), options.get("reasoning_effort")])
            prompt += "".join(f"<{m.type[:2].lower()}>{m.text}" for m in messages)
            cached = max((common(prompt, kept) for kept in self._kept), default=0)
            self._made += 1
            text = f"Answer number {self._made}, which nobody else would give in these words."
            self._kept.append(f"{prompt}<ai>{text}")
            calls = [self.calls.pop(0)] if self.calls else []
        usage: Any = None
        if self.reports != "nothing":
            usage = {
                "input_tokens": len(prompt) // TOKEN,
                "output_tokens": len(text) // TOKEN,
                "total_tokens": len(prompt) // TOKEN + len(text) // TOKEN,
            }
            if self.reports == "all":
                usage["input_token_details"] = {"cache_read": cached // TOKEN}
        return AIMessage(text, usage_metadata=usage, tool_calls=calls)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        message = self._reply(messages, options)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._reply(messages, options)
        words = message.text.split(" ")
        for at, word in enumerate(words):
            text = word if at == len(words) - 1 else f"{word} "
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=text))
            if run_manager is not None:
                run_manager.on_llm_new_token(text, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="", usage_metadata=message.usage_metadata, chunk_position="last"
            )
        )


def chat(server: NullServer, **options: Any) -> ChatOpenAI:
    options = {"model": "m", "api_key": "x", "base_url": f"{server.url}/v1", **options}
    return ChatOpenAI(**options)


def helper(number: int) -> Head:
    """One of several who begin alike."""
    return lambda _: [SystemMessage(f"You are helper number {number}. " * 5)]


def question(number: int) -> HumanMessage:
    return HumanMessage(f"Question {number}: what do you make of the case number {number * 7919}?")


def steady(number: int) -> list[BaseMessage]:
    return [SystemMessage("You help people who ask questions about servers. " * 4)]


def talk(
    meter: KVMeter,
    turns: int,
    *,
    model: Any = None,
    head: Head = steady,
    edit: Edit = lambda history, number: history,
    bound: Callable[[int], dict[str, Any]] = lambda number: {},
    **config: Any,
) -> list[AIMessage]:
    """A conversation of so many turns; returns the replies."""
    model = model or CachingModel()
    history: list[BaseMessage] = []
    replies: list[AIMessage] = []
    for number in range(turns):
        history.append(question(number))
        messages = [*head(number), *edit(list(history), number)]
        options = bound(number)
        reply = model.invoke(messages, {"callbacks": [meter], **config}, **options)
        history.append(reply)
        replies.append(reply)
    return replies


def usages(replies: Sequence[AIMessage]) -> list[Any]:
    return [reply.usage_metadata for reply in replies]


def pending(meter: KVMeter) -> tuple[int, int]:
    return len(meter._runs), meter._pending_bytes


# What it counts.


def test_it_counts_what_the_model_reports() -> None:
    meter = KVMeter()
    told = usages(talk(meter, 6))
    cached = sum(usage["input_token_details"]["cache_read"] for usage in told)
    prompts = [usage["input_tokens"] for usage in told]
    assert meter.turns == 6
    assert meter.prompt_tokens == sum(prompts)
    assert meter.cached_tokens == cached
    assert meter.prefilled_tokens == sum(prompts) - cached
    assert meter.completion_tokens == sum(usage["output_tokens"] for usage in told)
    assert meter.hit_rate == cached / sum(prompts)
    assert meter.hit_rate is not None
    assert meter.hit_rate > 0.6
    assert meter.breaks == []
    assert meter.misses == []
    (conversation,) = meter.conversations
    assert conversation.newest_prompt_tokens == prompts[-1]
    steps = [after - before for before, after in pairwise(prompts)]
    assert conversation.growth_per_turn == pytest.approx(sum(steps) / 5)
    assert sum(conversation.growth.values()) == prompts[-1]
    assert set(conversation.growth) == {"head", "user", "assistant"}


def test_what_cannot_be_called_with_an_event_is_told_at_once() -> None:
    with pytest.raises(TypeError, match="on_event is a value of type str; wanted is a function"):
        KVMeter(on_event="print")  # type: ignore[arg-type]


def test_nothing_reported_is_unknown_and_not_zero() -> None:
    meter = KVMeter()
    with pytest.warns(MissingUsageWarning):
        talk(meter, 2, model=CachingModel(reports="nothing"))
    assert (meter.turns, meter.prompt_tokens) == (2, 0)
    assert meter.cached_tokens is None
    assert meter.prefilled_tokens is None
    assert meter.hit_rate is None


def test_each_model_has_its_own_sums() -> None:
    meter = KVMeter()
    small, large = CachingModel(model="small"), CachingModel(model="large")
    one, other = usages(talk(meter, 3, model=small)), usages(talk(meter, 2, model=large))
    models = meter.models
    assert list(models) == ["small", "large"]
    assert models["small"].prompt_tokens == sum(usage["input_tokens"] for usage in one)
    assert models["large"].prompt_tokens == sum(usage["input_tokens"] for usage in other)
    assert meter.turns == models["small"].turns + models["large"].turns == 5
    assert {each.model for each in meter.conversations} == {"small", "large"}
    assert meter.breaks == []


@pytest.mark.parametrize("how", ["invoke", "stream", "ainvoke", "astream", "astream_events"])
async def test_however_it_is_called(how: str) -> None:
    meter, plain = KVMeter(), KVMeter()
    expected = usages(talk(plain, 3))
    model, history = CachingModel(), steady(0)
    told: list[Event] = []
    meter = KVMeter(on_event=told.append)
    for number in range(3):
        history.append(question(number))
        config: Any = {"callbacks": [meter]}
        if how == "invoke":
            reply = model.invoke(history, config)
        elif how == "ainvoke":
            reply = await model.ainvoke(history, config)
        elif how == "stream":
            whole: Any = None
            for chunk in model.stream(history, config):
                whole = chunk if whole is None else whole + chunk
            reply = AIMessage(whole.text, usage_metadata=whole.usage_metadata)
        elif how == "astream":
            whole = None
            async for chunk in model.astream(history, config):
                whole = chunk if whole is None else whole + chunk
            reply = AIMessage(whole.text, usage_metadata=whole.usage_metadata)
        else:
            async for event in model.astream_events(history, config, version="v2"):
                if event["event"] == "on_chat_model_end":
                    reply = event["data"]["output"]
        history.append(reply)
    assert meter.prompt_tokens == sum(usage["input_tokens"] for usage in expected)
    assert meter.cached_tokens == plain.cached_tokens
    assert meter.breaks == []
    turns = [event for event in told if isinstance(event, TurnFinished)]
    assert [turn.turn for turn in turns] == [1, 2, 3]
    assert all(turn.ttft_s is not None and turn.ttft_s > 0 for turn in turns)
    assert pending(meter) == (0, 0)


def test_a_batch_is_as_many_conversations() -> None:
    meter, model = KVMeter(), CachingModel()
    inputs: list[Any] = [[*steady(0), question(number)] for number in range(40)]
    replies = model.batch(inputs, {"callbacks": [meter], "max_concurrency": 8})
    assert meter.turns == 40
    assert meter.prompt_tokens == sum(usage["input_tokens"] for usage in usages(replies))
    assert len(meter.conversations) == 40
    assert meter.breaks == []
    assert pending(meter) == (0, 0)


async def test_many_at_once_in_a_loop() -> None:
    meter, model = KVMeter(), CachingModel()

    async def one(number: int) -> None:
        history = [*steady(0), HumanMessage(f"This is the conversation number {number}, hello!")]
        for _ in range(3):
            reply = await model.ainvoke(history, {"callbacks": [meter]})
            history += [reply, question(number)]

    await asyncio.gather(*(one(number) for number in range(20)))
    assert meter.turns == 60
    assert [each.turns for each in meter.conversations] == [3] * 20
    assert meter.breaks == []


def test_from_plain_threads() -> None:
    meter, model = KVMeter(), CachingModel()

    def one(number: int) -> None:
        talk(meter, 4, model=model, head=helper(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(16)))
    assert meter.turns == 64
    assert sorted(each.turns for each in meter.conversations) == [4] * 16
    assert meter.breaks == []


def test_several_choices_are_one_request(server: NullServer) -> None:
    meter = KVMeter()
    server.scripted.append(completion({"content": "one"}, {"content": "two"}))
    model = chat(server, n=2)
    model.generate([[question(0)]], callbacks=[meter])
    assert (meter.turns, meter.prompt_tokens) == (1, 20)


def test_a_reply_from_langchains_own_cache_is_no_request() -> None:
    meter, model = KVMeter(), CachingModel(cache=InMemoryCache())
    for _ in range(3):
        model.invoke([question(0)], {"callbacks": [meter]})
    assert meter.turns == 1
    assert pending(meter) == (0, 0)


# What breaks a prefix, and why.


@tool
def look(path: str) -> str:
    """Look into a file."""
    return f"{path} holds " + "a line of text, and another one, " * 20


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def clock(number: int) -> list[BaseMessage]:
    return [SystemMessage(f"You help.\nCurrent time: 2026-11-30T13:{number:02}:07. Be brief.")]


def mood(number: int) -> list[BaseMessage]:
    return [SystemMessage(f"You help people. You are in a {'good' if number < 3 else 'bad'} mood.")]


def edited(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    return [HumanMessage("I asked something else."), *history[1:]] if number >= 3 else history


def slid(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    return history[-5:]


def inserted(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    at = 2 if number >= 3 else len(history)
    return [*history[:at], HumanMessage("By the way, be polite to everybody."), *history[at:]][
        : len(history) + (number >= 3)
    ]


def moved(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    reminder = "\n\n<system-reminder>Do not forget to look into the file.</system-reminder>"
    return [*history[:-1], HumanMessage(history[-1].text + reminder)]


def in_parts(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    if number < 3:
        return history
    return [HumanMessage([{"type": "text", "text": history[0].text}]), *history[1:]]


def swapped(number: int) -> dict[str, Any]:
    return {"tools": [look, add] if number % 2 else [add, look]}


def more_tools(number: int) -> dict[str, Any]:
    return {"tools": [look] if number < 3 else [look, add]}


def effort(number: int) -> dict[str, Any]:
    return {"reasoning_effort": "low" if number < 3 else "high"}


@pytest.mark.parametrize(
    ("options", "cause", "times", "said"),
    [
        ({"head": clock}, "volatile_text", 5, "system message 0 differs"),
        ({"head": mood}, "system_changed", 1, "system message 0 differs"),
        ({"edit": edited}, "message_changed", 1, "message changed before"),
        ({"edit": slid}, "messages_removed", 3, "messages removed before"),
        ({"edit": inserted}, "message_inserted", 1, "message inserted before"),
        ({"edit": moved}, "text_moved", 5, "messages so far"),
        ({"edit": in_parts}, "message_reserialised", 1, "1 message so far"),
        ({"bound": swapped}, "tools_reordered", 5, ""),
        ({"bound": more_tools}, "tools_changed", 1, "added add"),
        ({"bound": effort}, "options_changed", 1, "changed: reasoning_effort"),
    ],
)
def test_a_break_and_its_cause(options: Any, cause: str, times: int, said: str) -> None:
    told: list[Event] = []
    meter = KVMeter(on_event=told.append)
    talk(meter, 6, **options)
    breaks = meter.breaks
    assert [each.cause for each in breaks] == [cause] * times
    assert said in breaks[-1].detail
    assert all(each.lost_tokens > 0 for each in breaks)
    assert meter.lost_tokens == sum(each.lost_tokens for each in breaks)
    assert meter.lost_tokens < meter.prompt_tokens
    assert [event for event in told if isinstance(event, PrefixBroken)] == breaks
    assert meter.turns == 6
    assert meter.misses == []  # a break says why, once
    assert cause in meter.report()


def test_what_text_that_moves_costs_is_what_stands_behind_it() -> None:
    """It moves out of one message each turn; what stood before that one is cached."""
    meter = KVMeter()
    talk(meter, 8, edit=moved)
    assert meter.prefilled_tokens is not None
    turn = meter.conversations[0].growth_per_turn
    assert turn is not None
    assert all(each.lost_tokens < 2 * turn for each in meter.breaks)


def test_appending_never_breaks() -> None:
    meter = KVMeter()
    for number in range(4):
        talk(meter, 5, head=helper(number))
    assert meter.breaks == []
    assert meter.misses == []


@settings(derandomize=True, deadline=None, max_examples=60)
@given(conversations(turns_at_most=6))
def test_whoever_only_appends_never_breaks(messages: list[BaseMessage]) -> None:
    """Whatever they say, in calls, results and replies, and however often they say the same."""
    replies = [at for at, message in enumerate(messages) if isinstance(message, AIMessage)]
    answers = (messages[at] for at in replies)
    meter, model = KVMeter(), GenericFakeChatModel(messages=answers)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingUsageWarning)
        for at in replies:
            model.invoke(messages[:at], {"callbacks": [meter]})
    assert meter.turns == len(replies)
    assert meter.breaks == []


def test_going_back_and_fanning_out_break_nothing() -> None:
    meter, model = KVMeter(), CachingModel()
    start = [*steady(0), question(0)]
    reply = model.invoke(start, {"callbacks": [meter]})
    branches: list[Any] = [[*start, reply, question(number)] for number in (1, 2, 3)]
    model.batch(branches, {"callbacks": [meter]})
    model.invoke(start, {"callbacks": [meter]})
    assert meter.breaks == []


def test_a_cache_that_forgot_is_a_miss_and_no_break() -> None:
    meter, model = KVMeter(), CachingModel()

    def forget(history: list[BaseMessage], number: int) -> list[BaseMessage]:
        if number == 3:
            model._kept.clear()
        return history

    talk(meter, 5, model=model, edit=forget)
    (miss,) = meter.misses
    assert miss.cause == "restart"
    assert meter.breaks == []
    assert meter.lost_tokens == miss.expected_tokens - miss.cached_tokens


# The window.


def test_the_window_fills() -> None:
    told: list[Event] = []
    meter = KVMeter(window=300, warn_at=(0.5, 0.9), on_event=told.append)
    talk(meter, 8)
    assert [e.share for e in told if isinstance(e, WindowFilling)] == [0.5, 0.9]
    (conversation,) = meter.conversations
    assert conversation.window == 300
    assert conversation.window_share == conversation.newest_prompt_tokens / 300  # type: ignore[operator]
    assert conversation.turns_left == 0
    assert "turns left" in meter.report()


def test_a_window_for_each_model() -> None:
    meter = KVMeter(window={"small": 1_000})
    talk(meter, 1, model=CachingModel(model="small"))
    talk(meter, 1, model=CachingModel(model="large"))
    assert [each.window for each in meter.conversations] == [1_000, None]


@pytest.mark.parametrize("options", [{"window": 0}, {"window": {"m": -1}}, {"warn_at": (80,)}])
def test_wrong_settings_are_told_at_once(options: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        KVMeter(**options)


REFUSED = Answer(
    json.dumps(
        {
            "error": {
                "message": "This model's maximum context length is 512 tokens. However, you "
                "requested 700 tokens in the messages, Please reduce the length of the messages.",
                "type": "BadRequestError",
                "code": 400,
            }
        }
    ).encode(),
    status=400,
)


def test_a_refusal_teaches_the_window(server: NullServer) -> None:
    told: list[Event] = []
    meter = KVMeter(on_event=told.append)
    model = chat(server, max_retries=0)
    server.scripted.append(REFUSED)
    with pytest.raises(Exception, match="maximum context length"):
        model.invoke([question(0)], {"callbacks": [meter]})
    assert meter.turns == 0
    (overflow,) = told
    assert isinstance(overflow, Overflowed)
    assert (overflow.prompt_tokens, overflow.window) == (700, 512)
    model.invoke([question(1)], {"callbacks": [meter]})
    assert meter.conversations[-1].window == 512
    assert pending(meter) == (0, 0)


# What is not reported.


def streamed(usage: dict[str, Any] | None) -> Answer:
    chunks = events({"content": "A short answer."})
    if usage is not None:
        last = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "null"}
        chunks.insert(
            -1, f"data: {json.dumps({**last, 'choices': [], 'usage': usage})}\n\n".encode()
        )
    return sse(chunks)


USAGE = {"prompt_tokens": 200, "completion_tokens": 5, "total_tokens": 205}


def test_a_stream_without_usage_is_told_once_with_the_remedy(server: NullServer) -> None:
    server.respond = lambda seen: streamed(USAGE if seen.json.get("stream_options") else None)
    meter = KVMeter()
    model = chat(server)

    def stream_all(*numbers: int) -> None:
        for number in numbers:
            list(model.stream([question(number)], {"callbacks": [meter]}))

    with pytest.warns(MissingUsageWarning, match="stream_usage=True") as warned:
        stream_all(1, 2, 3)
    assert len(warned) == 1
    assert "stream_usage=True" in meter.report().replace("\n", " ")
    model = chat(server, stream_usage=True)
    stream_all(9)
    assert meter.prompt_tokens == 200


def test_cached_tokens_that_are_never_reported_are_told_once(server: NullServer) -> None:
    server.respond = lambda seen: completion({"content": "Yes."}, usage=USAGE)
    meter = KVMeter()
    model = chat(server)
    with pytest.warns(MissingUsageWarning, match="--enable-prompt-tokens-details") as warned:
        talk(meter, 4, model=model)
    assert len(warned) == 1
    assert meter.hit_rate is None


def test_a_first_turn_without_cached_tokens_is_no_evidence(server: NullServer) -> None:
    """Some versions of vLLM leave the count out where it is 0."""
    server.respond = lambda seen: completion({"content": "Yes."}, usage=USAGE)
    meter = KVMeter()
    model = chat(server)
    talk(meter, 1, model=model)
    talk(meter, 3, model=model, head=clock)  # every prompt breaks, so nothing was cached
    assert meter.turns == 4


def test_a_model_that_reports_nothing(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    meter = KVMeter()
    model = GenericFakeChatModel(messages=iter([AIMessage("one"), AIMessage("two")]))
    for number in range(2):
        model.invoke([question(number)], {"callbacks": [meter]})
    assert [warning.category for warning in recwarn] == [MissingUsageWarning]
    assert meter.turns == 2


# It changes nothing, and nothing is left hanging.


@settings(derandomize=True, deadline=None, max_examples=60)
@given(conversations())
def test_no_message_is_ever_changed(messages: list[BaseMessage]) -> None:
    meter, model = KVMeter(), GenericFakeChatModel(messages=iter([AIMessage("x")] * 2))
    before = deepcopy(messages)
    objects = list(messages)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingUsageWarning)
        try:
            model.invoke(messages, {"callbacks": [meter]})
        except (KeyError, TypeError, ValueError):
            return  # LangChain itself cannot read it
    assert messages == before
    assert [message.model_dump() for message in messages] == [m.model_dump() for m in before]
    assert all(now is then for now, then in zip(messages, objects, strict=True))
    assert meter.turns == 1


def test_the_messages_handed_in_are_only_read() -> None:
    """LangChain hands in the caller's own objects: what is written there would be sent."""
    meter, model = KVMeter(), CachingModel()
    call = {"name": "look", "args": {"path": "a"}, "id": "call_1", "type": "tool_call"}
    messages = [
        *steady(0),
        HumanMessage([{"type": "text", "text": "Look!"}]),
        AIMessage("", tool_calls=[call], additional_kwargs={"reasoning_content": "Hm."}),
        ToolMessage([{"type": "text", "text": "It holds text."}], tool_call_id="call_1"),
    ]
    before = deepcopy(messages)
    seen: list[list[BaseMessage]] = []

    class Spy(KVMeter):
        def on_chat_model_start(self, serialized: Any, messages: Any, **options: Any) -> None:
            seen.extend(messages)
            super().on_chat_model_start(serialized, messages, **options)

    model.invoke(messages, {"callbacks": [Spy(), meter]})
    assert seen[0][1] is messages[1]
    assert messages == before
    assert [m.model_dump() for m in messages] == [m.model_dump() for m in before]


def test_it_sees_what_chatopenai_sends(server: NullServer) -> None:
    from kvagent_langchain.observed import body_of

    model = chat(server)
    bodies: list[dict[str, Any]] = []

    class Spy(KVMeter):
        def on_chat_model_start(self, serialized: Any, messages: Any, **options: Any) -> None:
            bodies.append(json.loads(body_of("m", messages[0], options["invocation_params"])))

    call = {"name": "look", "args": {"path": "ä"}, "id": "call_1", "type": "tool_call"}
    model.bind_tools([look, add]).invoke(
        [
            *steady(0),
            question(0),
            AIMessage("", tool_calls=[call]),
            ToolMessage("It holds text.", tool_call_id="call_1"),
        ],
        {"callbacks": [Spy()]},
    )
    sent = server.chats[0].json
    assert bodies[0]["messages"] == sent["messages"]
    assert bodies[0]["tools"] == sent["tools"]


def test_failures_and_retries_are_no_turns() -> None:
    meter, model = KVMeter(), CachingModel(failing=2)
    retrying = model.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
    replies = talk(meter, 3, model=retrying)
    assert meter.turns == len(replies) == 3
    assert meter.prompt_tokens == sum(usage["input_tokens"] for usage in usages(replies))
    assert meter.breaks == []
    assert pending(meter) == (0, 0)


async def test_streams_that_are_given_up_leave_nothing() -> None:
    meter, model = KVMeter(), CachingModel()
    for chunk in model.stream([question(0)], {"callbacks": [meter]}):
        assert chunk is not None
        break
    stream: Any = model.astream([question(1)], {"callbacks": [meter]})
    async for _ in stream:
        break
    await stream.aclose()
    task = asyncio.create_task(model.ainvoke([question(2)], {"callbacks": [meter]}))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(meter._runs) <= 1  # a task that is cancelled is told of to nobody
    assert meter.turns <= 1


def test_what_is_never_ended_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain tells nothing of the rest of a `generate` of which one prompt failed."""
    meter_, model = KVMeter(), CachingModel(failing=1)
    with pytest.raises(ConnectionError):
        model.generate([[question(number)] for number in range(20)], callbacks=[meter_])
    assert pending(meter_)[0] == 19
    monkeypatch.setattr(meter, "_MOST_PENDING_BYTES", 5 * meter._RUN_BYTES)
    model.invoke([question(99)], {"callbacks": [meter_]})
    runs, size = pending(meter_)
    assert runs <= 5
    assert size <= 5 * meter._RUN_BYTES
    assert meter_.turns == 1


def test_conversations_are_bounded_and_sums_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_MOST_CONVERSATIONS", 3)
    meter = KVMeter()
    for number in range(6):
        talk(meter, 1, head=helper(number))
    assert len(meter.conversations) == 3
    assert meter.turns == 6


def test_on_event_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        raise ValueError("not mine")

    meter = KVMeter(on_event=fail)
    with caplog.at_level(logging.CRITICAL, "kvagent"):
        talk(meter, 3)
    assert meter.turns == 3


def test_what_no_provider_knows_is_counted_all_the_same() -> None:
    class Odd(BaseMessage):
        type: str = "odd"

    meter, model = KVMeter(), CachingModel()
    model.invoke([question(0), Odd(content="?")], {"callbacks": [meter]})
    model.invoke([question(0)], {"callbacks": [meter]}, tools=["web", {"n": 2**70}])
    assert meter.turns == 2


# In agents.


def test_an_agent_with_tools_and_a_checkpointer() -> None:
    calls = [
        {"name": "look", "args": {"path": f"{name}.txt"}, "id": f"call_{name}", "type": "tool_call"}
        for name in "abc"
    ]
    model = CachingModel(calls=calls)
    agent: Any = create_agent(
        model,
        [look, add],
        system_prompt="You look into files.",
        checkpointer=InMemorySaver(),
        name="clerk",
    )
    meter = KVMeter()
    config = {"configurable": {"thread_id": "ticket-4711"}, "callbacks": [meter]}
    for number in range(3):
        agent.invoke({"messages": [question(number)]}, config)
    assert meter.turns == 6
    assert meter.breaks == []
    (conversation,) = meter.conversations
    assert conversation.name == "ticket-4711/clerk"
    assert conversation.growth["tool"] == max(conversation.growth.values())
    assert "ticket-4711" in meter.report()


@pytest.mark.parametrize(
    ("middleware", "cause"),
    [
        (
            SummarizationMiddleware(
                CachingModel(model="writer"), trigger=("tokens", 1_500), keep=("messages", 6)
            ),
            "messages_removed",
        ),
        (
            ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1_000, keep=3)]),
            "message_changed",
        ),
    ],
    ids=["SummarizationMiddleware", "ContextEditingMiddleware"],
)
def test_what_a_middleware_does_is_told(middleware: AgentMiddleware, cause: str) -> None:
    calls = [
        {"name": "look", "args": {"path": f"{n}.txt"}, "id": f"call_{n}", "type": "tool_call"}
        for n in range(12)
    ]
    agent: Any = create_agent(
        CachingModel(calls=calls),
        [look],
        system_prompt="You look into files.",
        checkpointer=InMemorySaver(),
        middleware=[middleware],
    )
    meter = KVMeter()
    for number in range(12):
        config = {"configurable": {"thread_id": "1"}, "callbacks": [meter]}
        agent.invoke({"messages": [question(number)]}, config)
    assert meter.models["caching-7b"].turns == 24
    assert {each.cause for each in meter.breaks} == {cause}
    assert meter.misses == []
    assert f"Last: message {meter.breaks[-1].index}." in " ".join(meter.report().split())


async def test_an_agent_in_a_loop_streamed() -> None:
    model = CachingModel()
    agent: Any = create_agent(model, [add], system_prompt="You add.", checkpointer=InMemorySaver())
    with kv_meter() as meter:
        for number in range(3):
            config = {"configurable": {"thread_id": 7}}
            async for _ in agent.astream(
                {"messages": [question(number)]}, config, stream_mode="messages"
            ):
                pass
    assert meter.turns == 3
    assert [each.name for each in meter.conversations] == ["7"]
    assert meter.breaks == []


def test_a_session_names_a_conversation() -> None:
    meter = KVMeter()
    with kvagent.session("ticket-1"):
        talk(meter, 2)
    assert [each.name for each in meter.conversations] == ["ticket-1"]


def test_it_needs_no_client_of_openai() -> None:
    """Somebody else's model may be of any provider."""
    code = "import sys; sys.modules['langchain_openai'] = sys.modules['openai'] = None\n"
    code += "from kvagent_langchain.meter import KVMeter; print(KVMeter())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith("0 turns")


# The block.


def test_a_block_counts_what_runs_in_it() -> None:
    model = CachingModel()
    model.invoke([question(0)])
    with kv_meter() as outer:
        model.invoke([question(1)])
        with kv_meter(window=9_000) as inner:
            model.invoke([question(2)])
            model.batch([[question(3)], [question(4)]])
        model.invoke([question(5)])
    model.invoke([question(6)])
    assert (outer.turns, inner.turns) == (5, 3)


async def test_tasks_inherit_a_block() -> None:
    model = CachingModel()
    with kv_meter() as meter:
        await asyncio.gather(*(model.ainvoke([question(number)]) for number in range(5)))
    assert meter.turns == 5


def test_a_block_ends_by_an_error_too() -> None:
    model = CachingModel()
    opened: list[KVMeter] = []

    def fail() -> None:
        with kv_meter() as measured:
            opened.append(measured)
            model.invoke([question(0)])
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    model.invoke([question(1)])
    assert opened[0].turns == 1


def test_blocks_one_after_the_other_leave_one_hook() -> None:
    with kv_meter(), kv_meter():
        pass
    known = len(meter._meters)
    for _ in range(50):
        with kv_meter(), kv_meter():
            pass
    assert len(meter._meters) == known


# What it prints.


def test_the_report_fits_in_80_columns() -> None:
    meter = KVMeter(window=100_000)
    talk(meter, 6, head=clock, metadata={"thread_id": "4b0a2c4e-0e6e-4d0a-9f0e-1f1f6f0c5a11"})
    talk(meter, 6, edit=slid, model=CachingModel(model="some-organisation/some-model-70b[awq]"))
    for number in range(20):
        talk(meter, 2, head=helper(number))
    said = meter.report()
    assert max(map(len, said.splitlines())) <= 80
    tables = [line for line in said.splitlines() if line.startswith(("model ", "conversation "))]
    assert [line.split()[-2:] for line in tables] == [["breaks", "lost"]] * 2
    assert said == str(meter)
    assert f"{meter.turns} turns" in said.splitlines()[0]
    assert f"and {len(meter.conversations) - 12} smaller ones" in said
    assert "volatile_text" in said
    assert "messages_removed" in said
    shown = StringIO()
    Console(width=80, force_terminal=True, file=shown).print(meter)
    assert "52 turns" in shown.getvalue()
    assert "\x1b[31mvolatile_text" in shown.getvalue()
    assert repr(meter).startswith("<KVMeter: 52 turns, ")


def test_an_empty_report() -> None:
    assert KVMeter().report() == "0 turns, 0 prompt tokens\n0 prefix breaks"


def test_every_cause_is_explained() -> None:
    by_stages = {
        "arguments_reserialised",
        "carrying_costs",
        "reasoning_dropped",
        "repeated_result",
        "result_too_long",
        "window_crowded",
        "window_full",
    }
    """Of edits that nothing but a stage makes, and none runs here."""
    assert CAUSES.keys() == {*get_args(Cause), *get_args(MissCause)} - by_stages


def test_conversations_are_copies() -> None:
    meter = KVMeter()
    talk(meter, 2)
    (conversation,) = meter.conversations
    assert isinstance(conversation, Conversation)
    conversation.turns = 99
    assert meter.conversations[0].turns == 2


# On a real server.


def on_llamacpp(base_url: str) -> ChatOpenAI:
    options: dict[str, Any] = {"model": "default", "base_url": base_url, "api_key": "none"}
    return ChatOpenAI(**options, max_completion_tokens=8, stream_usage=True)


def test_llamacpp_says_the_same(llamacpp: str) -> None:
    """An append-only chat hits; a clock in front of it makes the server prefill all of it again."""
    model = on_llamacpp(llamacpp)
    good, bad = KVMeter(), KVMeter()
    replies = talk(good, 3, model=model)
    cached = [usage["input_token_details"]["cache_read"] for usage in usages(replies)]
    assert good.cached_tokens == sum(cached)
    assert good.breaks == []
    for before, after in pairwise(usages(replies)):
        assert after["input_token_details"]["cache_read"] >= before["input_tokens"] - 1
    talk(bad, 3, model=model, head=clock)
    assert [each.cause for each in bad.breaks] == ["volatile_text"] * 2
    assert good.hit_rate is not None
    assert bad.hit_rate is not None
    assert good.hit_rate > bad.hit_rate


def test_llamacpp_streamed(llamacpp: str) -> None:
    model = on_llamacpp(llamacpp)
    meter, history = KVMeter(), steady(0)
    for number in range(2):
        history.append(question(number))
        whole: Any = None
        for chunk in model.stream(history, {"callbacks": [meter]}):
            whole = chunk if whole is None else whole + chunk
        history.append(whole)
    assert meter.turns == 2
    assert meter.breaks == []
    assert meter.cached_tokens is not None
    assert meter.cached_tokens > 0
