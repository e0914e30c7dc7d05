"""Does the prefix hold, whatever an agent is made of, or does an event say where it does not?"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from kvagent import Edited, Event, Policy, PrefixBroken
from kvagent.fingerprint import identity
from kvagent_langchain import wire
from kvagent_langchain.middleware import KVAgentMiddleware

from .task_agent import CONFIG, agent, read, task
from .task_server import reply

# Stages that change what was sent before.
WITHIN = ("clear", "compact")

EXAMPLES = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Scripted(BaseChatModel):
    """Answers as a ``TaskServer`` does, without a socket, and keeps what it was sent."""

    model_name: str = "task"
    sent: list[dict[str, Any]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        request = {"tools": options.get("tools"), "messages": list(map(wire.message, messages))}
        self.sent.append(request)
        tokens = len(identity(request)) // 4
        return ChatResult(generations=[ChatGeneration(message=answer(reply(request), tokens))])


def answer(said: dict[str, Any], tokens: int) -> AIMessage:
    usage: Any = {"input_tokens": tokens, "output_tokens": 20, "total_tokens": tokens + 20}
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "args": {"task": 1, "step": at}}
        for at, call in enumerate(said.get("tool_calls", ()))
    ]
    return AIMessage(said["content"] or "", tool_calls=calls, usage_metadata=usage)


class Journal:
    """What went over the wire, and which events each request had."""

    def __init__(self, sent: list[dict[str, Any]]) -> None:
        self.sent = sent
        self.events: list[tuple[int, Event]] = []
        self.branches: set[int] = set()
        """The requests in which the newest message of another may have been replaced."""

    def on_event(self, event: Event) -> None:
        self.events.append((len(self.sent) - 1, event))

    def check(self) -> None:
        """Each request begins with the one before, or an event says where it does not."""
        told: dict[int, list[Event]] = {}
        for at, event in self.events:
            if isinstance(event, PrefixBroken) or (
                isinstance(event, Edited) and event.stage in WITHIN
            ):
                told.setdefault(at, []).append(event)
        edited = False  # then the wire has fewer messages than the agent
        # Else the place counts from the request before, and not from the one most alike.
        one_head = all(
            (each["tools"], each["messages"][0]) == (now["tools"], now["messages"][0])
            for each, now in pairwise(self.sent)
        )
        for at, now in enumerate(self.sent):
            check_pairs(now["messages"])
            edited = edited or any(isinstance(event, Edited) for event in told.get(at, ()))
            common = max((shared(before, now) for before in self.sent[:at]), default=0)
            left = 1 if at in self.branches else 0
            if not at or any(continues(before, now, left) for before in self.sent[:at]):
                continue
            assert at in told, common
            broken = [event for event in told[at] if isinstance(event, PrefixBroken)]
            if not edited and broken and one_head:
                assert broken[0].index == common


def continues(before: dict[str, Any], now: dict[str, Any], left: int) -> bool:
    """Whether a request goes on from another one, but for so many messages at its end."""
    return shared(before, now) >= len(before["messages"]) - left


def shared(before: dict[str, Any], now: dict[str, Any]) -> int:
    """How many messages two prompts begin with alike; tools stand in front of them."""
    if before["tools"] != now["tools"]:
        return -1
    pairs = zip(before["messages"], now["messages"], strict=False)
    least = min(len(before["messages"]), len(now["messages"]))
    return next((at for at, (a, b) in enumerate(pairs) if a != b), least)


def check_pairs(messages: Sequence[dict[str, Any]]) -> None:
    """Every call has its result right behind it, and every result its call."""
    due: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in due
            due.remove(message["tool_call_id"])
            continue
        assert not due
        due = [call["id"] for call in message.get("tool_calls") or ()]
    assert not due


# -- what agents are made of


class Watcher(AgentMiddleware[Any, Any, Any]):
    """Sees to it that nobody writes to what is the state's."""

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        messages = deepcopy(request.messages), deepcopy(request.state["messages"])
        given = list(request.messages), list(request.state["messages"])
        system, tools = deepcopy(request.system_message), list(request.tools)
        response = handler(request)
        assert (request.messages, request.state["messages"]) == messages
        for now, then in zip((request.messages, request.state["messages"]), given, strict=True):
            assert all(a is b for a, b in zip(now, then, strict=True))
        assert (request.system_message, request.tools) == (system, tools)
        return response


class Changing(AgentMiddleware[Any, Any, Any]):
    """Changes every request as many agents do."""

    def __init__(self, ways: frozenset[str], chance: random.Random) -> None:
        super().__init__()
        self._ways, self._chance = ways, chance
        self._calls = self._mood = 0
        self._fewer = False

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        self._calls += 1
        changes: dict[str, Any] = {}
        prompt = "You do tasks."
        if "clock" in self._ways:
            prompt += f" Current time: 2026-11-30 14:{self._calls % 60:02}:00."
        self._mood += "mood" in self._ways and self._chance.random() < 0.2
        if self._mood:
            prompt += f" Be number {self._mood}."
        changes["system_message"] = SystemMessage(prompt)
        tools = list(request.tools)
        if "shuffled tools" in self._ways:
            self._chance.shuffle(tools)
        self._fewer |= "fewer tools" in self._ways and self._chance.random() < 0.1
        if self._fewer:
            tools = [tool for tool in tools if not isinstance(tool, BaseTool) or tool is read]
        changes["tools"] = tools
        if "note" in self._ways:
            *before, last = request.messages
            if isinstance(last, HumanMessage):
                noted = HumanMessage(f"{last.text}\n\nNote {self._calls}.", id=last.id)
                changes["messages"] = [*before, noted]
        if "rewritten" in self._ways:
            changes["messages"] = list(map(rewritten, changes.get("messages", request.messages)))
        return handler(request.override(**changes))


def rewritten(message: Any) -> Any:
    """The same with its text as a part."""
    if isinstance(message, HumanMessage) and isinstance(message.content, str):
        return message.model_copy(update={"content": [{"type": "text", "text": message.content}]})
    return message


class Settings(AgentMiddleware[Any, Any, Any]):
    """Changes what is no part of the prompt."""

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        return handler(request.override(model_settings={"temperature": 0.5}))


WAYS = ("clock", "mood", "shuffled tools", "fewer tools", "note", "rewritten")


def idle(number: int) -> BaseTool:
    def nothing(what: str = "") -> str:
        return what

    return StructuredTool.from_function(
        nothing, name=f"nothing_{number}", description=f"Does nothing, {number} times."
    )


def edited(messages: Sequence[AnyMessage], chance: random.Random) -> list[BaseMessage]:
    """What a human does to the state; it stays a conversation."""
    at = chance.randrange(len(messages))
    message = messages[at]
    if chance.random() < 0.3 and message.type == "ai":
        end = at + 1
        while end < len(messages) and messages[end].type == "tool":
            end += 1
        return [RemoveMessage(id=each.id or "") for each in messages[at:end]]
    if message.type == "human":
        return [HumanMessage(f"task {chance.randrange(9)}: 2 steps", id=message.id)]
    return [message.model_copy(update={"content": f"edited {chance.randrange(9)}"})]


@EXAMPLES
@given(
    window=st.sampled_from([None, 2500, 4000, 8000]),
    ways=st.frozensets(st.sampled_from(WAYS)),
    steps=st.lists(st.integers(0, 6), min_size=2, max_size=5),
    tools=st.integers(0, 3),
    edits=st.sets(st.integers(0, 5)),
    forgetful=st.booleans(),
    seed=st.integers(0, 999),
)
def test_the_prefix_of_any_agent_holds_or_an_event_says_where_it_breaks(
    window: int | None,
    ways: frozenset[str],
    steps: list[int],
    tools: int,
    edits: set[int],
    forgetful: bool,
    seed: int,
) -> None:
    chance = random.Random(seed)
    model = Scripted()
    journal = Journal(model.sent)
    saver = InMemorySaver()

    changing = Changing(ways, chance)

    def made() -> Any:
        middleware = KVAgentMiddleware(Policy(window=window), on_event=journal.on_event)
        around = [Watcher(), changing, middleware, Settings()]
        return agent(model, around, tools=[read, *map(idle, range(tools))], checkpointer=saver)

    working = made()
    history: list[Any] = []
    for number, count in enumerate(steps):
        if number in edits and history:
            journal.branches.add(len(model.sent))
            changes = {"messages": edited(history, chance)}
            working.update_state(CONFIG, changes, as_node="__start__")
            history = working.get_state(CONFIG).values["messages"]
        result = working.invoke(task(number, count), CONFIG)["messages"]
        assert result[: len(history)] == history  # nothing that was said is changed or gone
        history = result
        if forgetful:  # another process
            working = made()
    for message in history:
        if isinstance(message, ToolMessage) and not message.text.startswith("edited"):
            assert message.text.count("\n") == 60
    journal.check()


# -- message lists as they come, straight through the middleware

TEXTS = st.one_of(
    st.text(max_size=20),
    st.builds(lambda line, times: f"{line}\n" * times, st.text(max_size=9), st.integers(1, 900)),
)
CONTENTS: st.SearchStrategy[Any] = st.one_of(
    TEXTS, st.lists(TEXTS.map(lambda text: {"type": "text", "text": text}), min_size=1, max_size=3)
)


@st.composite
def exchanges(draw: st.DrawFn, number: int) -> list[AnyMessage]:
    """A question, perhaps calls with their results, and an answer."""
    messages: list[AnyMessage] = [HumanMessage(draw(CONTENTS))]
    for step in range(draw(st.integers(0, 2))):
        calls: list[Any] = [
            {"id": f"c{number}-{step}-{at}", "name": "read", "args": {"task": at, "step": step}}
            for at in range(draw(st.integers(1, 3)))
        ]
        messages.append(AIMessage(draw(TEXTS), tool_calls=calls))
        messages += [ToolMessage(draw(CONTENTS), tool_call_id=call["id"]) for call in calls]
    messages.append(AIMessage(draw(TEXTS)))
    return messages


@st.composite
def conversations(draw: st.DrawFn) -> list[tuple[list[AnyMessage], AIMessage]]:
    """One request after the other with its answer; here and there is an edit between them."""
    lists: list[tuple[list[AnyMessage], AIMessage]] = []
    messages: list[AnyMessage] = []
    for number in range(draw(st.integers(1, 5))):
        if messages and draw(st.integers(0, 3)) == 0:
            at = draw(st.integers(0, len(messages) - 1))
            changed = messages[at].model_copy(update={"content": draw(CONTENTS)})
            messages = [*messages[:at], changed, *messages[at + 1 :]]
        exchange = draw(exchanges(number))
        for at, message in enumerate(exchange):
            if isinstance(message, AIMessage):
                lists.append(([*messages, *exchange[:at]], message))
        messages = [*messages, *exchange]
    return lists


def forms(request: ModelRequest[Any]) -> Iterator[dict[str, Any]]:
    system = () if request.system_message is None else (request.system_message,)
    return map(wire.message, (*system, *request.messages))


@EXAMPLES
@given(
    lists=conversations(),
    window=st.sampled_from([None, 2500, 6000]),
    system=st.sampled_from([None, SystemMessage("You do tasks.")]),
    pages=st.booleans(),
)
def test_any_messages_keep_their_prefix_or_an_event_says_where_it_breaks(
    lists: list[tuple[list[AnyMessage], AIMessage]],
    window: int | None,
    system: SystemMessage | None,
    pages: bool,
) -> None:
    """With a state that keeps pages, or with histories handed in: then one conversation is told
    from another by what was answered in it."""
    sent: list[dict[str, Any]] = []
    journal = Journal(sent)
    middleware = KVAgentMiddleware(Policy(window=window), on_event=journal.on_event)
    kept: list[str] = []
    histories: list[list[AnyMessage]] = []

    def handler(request: ModelRequest[Any]) -> ModelResponse[Any]:
        sent.append({"tools": wire.tools(request.tools), "messages": list(forms(request))})
        return ModelResponse([answered])

    for messages, answered in lists:
        if not pages and not any(messages[: len(each)] == each for each in histories):
            journal.check()
            sent.clear()
            journal.events.clear()
            journal.branches.clear()
        if not any(messages[: len(each)] == each for each in histories[-1:]):
            journal.branches.add(len(sent))
        histories.append([*messages, answered])
        state: Any = {"messages": messages, **({"kvagent": kept} if pages else {})}
        request = ModelRequest(
            model=Scripted(),
            messages=messages,
            system_message=system,
            tools=[read],
            state=state,
        )
        before = deepcopy(messages)
        handled: Any = middleware.wrap_model_call(request, handler)
        assert messages == before
        command = getattr(handled, "command", None)
        kept = [*kept, *(command.update["kvagent"] if command else ())]
    journal.check()
