"""Does what LangChain itself offers for agents work around kvagent, and does the prompt stay cached?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRequest,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
    dynamic_prompt,
)
from langchain_core.messages import SystemMessage, ToolMessage, messages_to_dict
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from kvagent import Policy
from kvagent_langchain import KVAgentMiddleware, chat_openai

from . import task_server
from .record import Record, recorded
from .task_agent import CONFIG, POLICY, agent, model, read, task

LARGE = POLICY.model_copy(update={"window": 200_000})
TASKS = 4


def kv(record: Record, policy: Policy = LARGE) -> KVAgentMiddleware:
    return KVAgentMiddleware(policy, on_event=record.on_event)


def worked(record: Record, *middleware: Any, tasks: int = TASKS, **options: Any) -> Any:
    """The state of an agent once it has done its tasks."""
    working = agent(record.base_url, middleware, checkpointer=InMemorySaver(), **options)
    for number in range(tasks):
        working.invoke(task(number), CONFIG)
    return working.get_state(CONFIG).values


async def aworked(record: Record, *middleware: Any, **options: Any) -> Any:
    """``worked`` with coroutines."""
    working = agent(record.base_url, middleware, checkpointer=InMemorySaver(), **options)
    for number in range(TASKS):
        await working.ainvoke(task(number), CONFIG)
    return (await working.aget_state(CONFIG)).values


def tokens(request: Mapping[str, Any]) -> int:
    """As the server counts."""
    prompt = [request.get("tools"), request["messages"]]
    return len(json.dumps(prompt, ensure_ascii=False).encode()) // 4


def is_whole(state: Mapping[str, Any], tasks: int = TASKS) -> bool:
    """Whether the state has every result as the tool gave it."""
    results = [m.text for m in state["messages"] if isinstance(m, ToolMessage)]
    return len(results) == 5 * tasks and all("line 59" in text for text in results)


# -- what changes nothing in the prompt, or always the same

ORDERS = ("inside", "outside")


def ordered(order: str, own: Any, other: Any) -> tuple[Any, ...]:
    """``other`` inside or outside of kvagent: the first in the list is the outermost."""
    return (own, other) if order == "inside" else (other, own)


STEADY: dict[str, Callable[[], AgentMiddleware[Any, Any, Any]]] = {
    "model call limit": lambda: ModelCallLimitMiddleware(run_limit=50),
    "model retry": lambda: ModelRetryMiddleware(max_retries=1, initial_delay=0),
    "pii": lambda: PIIMiddleware("email", apply_to_tool_results=True),
    "todo": TodoListMiddleware,
    "tool call limit": lambda: ToolCallLimitMiddleware(run_limit=50),
    "tool retry": lambda: ToolRetryMiddleware(max_retries=1, initial_delay=0),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("other", STEADY)
def test_middleware_that_only_appends(other: str, order: str) -> None:
    """The prompt only grows, and each token is prefilled once."""
    with recorded() as record:
        state = worked(record, *ordered(order, kv(record), STEADY[other]()), tasks=2)
        assert record.cuts == []
        assert record.breaks == []
        assert record.prefilled <= 1.02 * tokens(record.requests[-1])
        assert is_whole(state, 2)


@pytest.mark.parametrize("order", ORDERS)
async def test_many_at_once_in_a_small_window(order: str) -> None:
    """All of them together, with coroutines, while old results are cleared."""
    with recorded() as record:
        others = [make() for make in STEADY.values()]
        own = kv(record, Policy(window=6000))
        state = await aworked(record, *([own, *others] if order == "inside" else [*others, own]))
        assert record.holds()
        assert record.breaks == []
        assert record.edited("clear") or record.edited("compact")
        assert is_whole(state)


# -- what changes the prompt each time


def clock() -> AgentMiddleware[Any, Any, Any]:
    """It tells the model what time it is, to the second, in front of everything."""
    ticks = count()

    @dynamic_prompt
    def prompt(request: ModelRequest[Any]) -> str:
        now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC) + timedelta(seconds=next(ticks))
        return f"You do tasks.\nCurrent time: {now.isoformat()}\nBe quick."

    return prompt


def test_a_clock_in_the_prompt_stands_outside() -> None:
    """Outside, kvagent keeps the head and tells the time at the end; inside, nobody does."""
    prefilled = {}
    for order in (*ORDERS, "alone"):
        with recorded() as record:
            middleware = (clock(),) if order == "alone" else ordered(order, kv(record), clock())
            state = worked(record, *middleware, tasks=2)
            assert is_whole(state, 2)
            prefilled[order] = record.prefilled
            if order == "outside":
                assert record.cuts == []
                assert record.breaks == []
                floor = tokens(record.requests[-1])
                heads = {str(r["messages"][0]) for r in record.requests}
                assert len(heads) == 1
                assert "2026-11-30T12:00:01+00:00" in str(record.requests[1]["messages"][1:])
            else:
                assert record.cuts
    assert prefilled["outside"] <= 1.02 * floor
    assert prefilled["inside"] > 3 * prefilled["outside"]
    assert prefilled["inside"] == pytest.approx(prefilled["alone"], rel=0.02)


class Turning(AgentMiddleware[Any, Any, Any]):
    """The tools in another order each time, as one gets them from a set."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = count()

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        tools = request.tools[::-1] if next(self._turn) % 2 else request.tools
        return handler(request.override(tools=tools))


@tool
def write(text: str) -> str:
    """Write something down."""
    return "Done."


def test_tools_in_another_order() -> None:
    prefilled = {}
    for order in ORDERS:
        with recorded() as record:
            state = worked(
                record, *ordered(order, kv(record), Turning()), tasks=2, tools=[read, write]
            )
            assert is_whole(state, 2)
            prefilled[order] = record.prefilled
            assert bool(record.cuts) == (order == "inside")
    assert prefilled["outside"] < 0.7 * prefilled["inside"]


class Late(AgentMiddleware[Any, Any, Any]):
    """A tool that is offered only from the second task on, and called by nobody it does not know."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        asked = sum(m.type == "human" for m in request.messages)
        tools = request.tools if asked < 2 else [*request.tools, write]
        return handler(request.override(tools=tools))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(request)


@pytest.mark.parametrize("order", ORDERS)
def test_a_tool_that_comes_later(order: str) -> None:
    """It is offered: the prefix breaks once, and outside of kvagent the event says why."""
    with recorded() as record:
        state = worked(record, *ordered(order, kv(record), Late()), tasks=3)
        assert is_whole(state, 3)
        names = [[t["function"]["name"] for t in r["tools"]] for r in record.requests]
        assert names[0] == ["read"]
        assert names[-1] == ["read", "write"]
        assert len(record.cuts) == 1
        if order == "outside":
            assert record.holds()
            assert [b.cause for b in record.breaks] == ["tools_changed"]


def reply(request: Mapping[str, Any]) -> dict[str, Any]:
    """The scripted model, which also chooses tools and sums up when it is asked to."""
    if "tools" not in request and not request.get("response_format"):
        return {"role": "assistant", "content": "Much was read."}
    if "tools" not in request and request.get("response_format"):
        asked = next(m["content"] for m in request["messages"] if m["role"] == "user")
        even = int(task_server.TASK.search(asked)[1]) % 2 == 0  # type: ignore[index]
        tools = ["read", "write"] if even else ["read"]
        return {"role": "assistant", "content": json.dumps({"tools": tools})}
    return task_server.reply(request)


def test_chosen_tools_break_the_prefix() -> None:
    """Each choice puts other tools in front of everything, which an event names; coming back to
    tools that were offered before is going on from there."""
    prefilled = {}
    for selectors in ([LLMToolSelectorMiddleware()], []):
        with recorded(answer=reply) as record:
            state = worked(record, *selectors, kv(record), tasks=3, tools=[read, write])
            assert is_whole(state, 3)
            if selectors:
                assert len(record.cuts) == 2
                assert record.breaks[0].cause == "tools_changed"
                assert record.breaks[0].detail == "removed write"
            else:
                assert record.cuts == []
            prefilled[bool(selectors)] = record.prefilled
    assert prefilled[True] > 1.4 * prefilled[False]


class Tagger(AgentMiddleware[Any, Any, Any]):
    """It marks where a cache may end, as the middleware for Anthropic's models does."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        mark = {"cache_control": {"type": "ephemeral"}}
        system = SystemMessage([{"type": "text", "text": request.system_message.text, **mark}])
        last = request.messages[-1]
        content = [{"type": "text", "text": last.text, **mark}]
        messages = [*request.messages[:-1], last.model_copy(update={"content": content})]
        return handler(request.override(system_message=system, messages=messages))


@pytest.mark.parametrize("order", ORDERS)
def test_marks_that_move(order: str) -> None:
    """A mark at the newest message is somewhere else each time."""
    with recorded() as record:
        state = worked(record, *ordered(order, kv(record), Tagger()), tasks=2)
        assert is_whole(state, 2)
        assert record.cuts
        if order == "outside":
            assert record.holds()
            assert {b.cause for b in record.breaks} == {"message_changed"}
        else:  # nobody sees what is done inside of kvagent
            assert record.breaks == []


# -- what edits the prompt, as kvagent does


def edits() -> AgentMiddleware[Any, Any, Any]:
    return ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=3000)])


def summaries(record: Record) -> AgentMiddleware[Any, Any, Any]:
    return SummarizationMiddleware(
        model(record.base_url), trigger=("tokens", 4000), keep=("messages", 12)
    )


def test_context_editing_is_what_kvagent_replaces() -> None:
    """Beside kvagent it moves the prefix almost every turn, whichever order; kvagent tells so
    where it can see it."""
    costs = {}
    for order in (*ORDERS, "alone", "kvagent"):
        with recorded() as record:
            own = kv(record, POLICY)
            middleware = {
                "alone": (edits(),),
                "kvagent": (own,),
            }.get(order) or ordered(order, own, edits())
            state = worked(record, *middleware, tasks=6)
            assert is_whole(state, 6)
            costs[order] = record.prefilled, len(record.cuts)
            if order in ("outside", "kvagent"):
                assert record.holds()
    assert costs["kvagent"] < costs["inside"] < costs["outside"] < costs["alone"]
    assert 2 * costs["kvagent"][0] < costs["outside"][0]
    assert 4 * costs["kvagent"][0] < costs["alone"][0]


def test_summarization_is_what_kvagent_replaces() -> None:
    """It takes old messages out of the state itself: what it removes is gone for kvagent too."""
    costs = {}
    for order in (*ORDERS, "alone", "kvagent"):
        with recorded(answer=reply) as record:
            own = kv(record, POLICY)
            middleware = {
                "alone": (summaries(record),),
                "kvagent": (own,),
            }.get(order) or ordered(order, own, summaries(record))
            state = worked(record, *middleware, tasks=6)
            assert is_whole(state, 6) == (order == "kvagent")
            costs[order] = record.prefilled, len(record.cuts)
    # What removes messages from the state comes before every model call, wherever it stands.
    assert costs["inside"] == costs["outside"]
    assert 3 * costs["kvagent"][0] < costs["outside"][0]
    assert 5 * costs["kvagent"][0] < costs["alone"][0]


def test_what_it_remembers_is_small() -> None:
    """Beside the messages, which are whole."""
    with recorded() as record:
        state = worked(record, kv(record, POLICY), tasks=6)
        assert record.edited("clear")
        assert record.edited("compact")
        messages = json.dumps(messages_to_dict(state["messages"]))
        assert is_whole(state, 6)
        assert len(state["kvagent"]) == len(record.requests)
        assert 4 * sum(map(len, state["kvagent"])) < len(messages)


def test_an_engine_below_stands_aside() -> None:
    """The middleware decides; the model's own engine lets its requests pass."""
    below: list[Any] = []
    with recorded() as record:
        chat = chat_openai("task", base_url=record.base_url, on_event=below.append)
        working = agent(chat, [kv(record, POLICY)], checkpointer=InMemorySaver())
        for number in range(TASKS):
            working.invoke(task(number), CONFIG)
        assert record.edited("clear")
        assert record.holds()
        assert below == []
        # Arguments go out as the model wrote them.
        assert b'\\"task\\":0,\\"step\\":0' in record.server.bodies[1]


# -- people, faults, other models


def decide(working: Any, given: Any, decision: Mapping[str, Any]) -> Any:
    """Do a task, with this decision on whatever is asked."""
    while True:
        state = working.invoke(given, CONFIG)
        if "__interrupt__" not in state:
            return state
        asked = state["__interrupt__"][0].value["action_requests"]
        given = Command(resume={"decisions": [decision] * len(asked)})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["approve", "edit", "reject"])
def test_people_decide(kind: str, order: str) -> None:
    """What was edited is what the model sees from then on; the prompt before it stays."""
    decision: dict[str, Any] = {"type": kind}
    if kind == "edit":
        decision["edited_action"] = {"name": "read", "args": {"task": 7, "step": 7}}
    if kind == "reject":
        decision["message"] = "Not this one."
    with recorded() as record:
        people = HumanInTheLoopMiddleware({"read": True})
        working = agent(
            record.base_url,
            ordered(order, kv(record), people),
            checkpointer=InMemorySaver(),
        )
        for number in range(2):
            state = decide(working, task(number), decision)
        assert record.holds()
        results = [m.text for m in state["messages"] if isinstance(m, ToolMessage)]
        assert len(results) == 10
        expected = {"approve": "task 0 step 0", "edit": "task 7 step 7", "reject": "Not this one."}
        assert expected[kind] in results[0]
        calls = [c for m in state["messages"] if m.type == "ai" for c in m.tool_calls]
        sent = [
            json.loads(c["function"]["arguments"])
            for m in record.requests[-1]["messages"]
            for c in m.get("tool_calls", ())
        ]
        assert sent == [call["args"] for call in calls]
        if (
            kind == "edit"
        ):  # within the reply itself, or told behind it, as LangChain's version has it
            assert {b.cause for b in record.breaks} <= {"message_changed"}
        else:
            assert record.breaks == []


class Flaky(AgentMiddleware[Any, Any, Any]):
    """The network fails every third time, once the server has answered."""

    def __init__(self) -> None:
        super().__init__()
        self._times = count(1)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        response = handler(request)
        if next(self._times) % 3 == 0:
            raise ConnectionError("gone")
        return response


@pytest.mark.parametrize("order", ORDERS)
def test_a_call_that_is_made_again(order: str) -> None:
    """It is the same request, not another turn."""
    with recorded() as record:
        retry = ModelRetryMiddleware(max_retries=2, initial_delay=0)
        state = worked(record, *ordered(order, kv(record), retry), Flaky(), tasks=2)
        assert is_whole(state, 2)
        bodies = record.server.bodies
        again = [n for n in range(1, len(bodies)) if bodies[n] == bodies[n - 1]]
        assert len(again) == (len(bodies)) // 3
        assert record.breaks == []
        once = [json.loads(body) for body in dict.fromkeys(bodies)]
        assert record.prefilled <= 1.02 * tokens(once[-1])


@pytest.mark.parametrize("order", ORDERS)
def test_another_model_that_stands_in(order: str) -> None:
    """Its cache is another one; it is sent the same prompt."""
    with recorded() as record, recorded() as other:
        fallback = ModelFallbackMiddleware(model(other.base_url))
        state = worked(record, *ordered(order, kv(record), fallback), Flaky(), tasks=2)
        assert is_whole(state, 2)
        assert other.requests
        for request in other.requests:
            assert request["messages"] in [r["messages"] for r in record.requests]
        assert record.breaks == []
        assert record.cuts == []


class Sometimes(Exception):
    """What a tool fails with."""


def test_a_tool_that_is_called_again() -> None:
    failures = count()

    @tool("read")
    def flaky(task: int, step: int) -> str:
        """Read what a step of a task is about."""
        if next(failures) % 3 == 0:
            raise Sometimes("later")
        return str(read.invoke({"task": task, "step": step}))

    with recorded() as record:
        retry = ToolRetryMiddleware(max_retries=2, initial_delay=0)
        state = worked(record, kv(record), retry, tasks=2, tools=[flaky])
        assert is_whole(state, 2)
        assert record.cuts == []


def test_private_data_stays_out_of_the_prompt() -> None:
    """What is taken out of results outside of the model's call is never seen by kvagent."""

    @tool("read")
    def mail(task: int, step: int) -> str:
        """Read what a step of a task is about."""
        return f"From ada{step}@example.com: " + "hello " * 300

    with recorded() as record:
        own = KVAgentMiddleware(POLICY, on_event=record.on_event)
        state = worked(
            record, own, PIIMiddleware("email", apply_to_tool_results=True), tools=[mail]
        )
        assert not any("@example" in body.decode() for body in record.server.bodies)
        assert not re.search("@example", str(state["kvagent"]))
        assert record.holds()


def test_limits_end_a_run_and_the_next_goes_on() -> None:
    with recorded() as record:
        limit = ModelCallLimitMiddleware(run_limit=3, exit_behavior="end")
        state = worked(record, kv(record), limit, tasks=3)
        assert "limit" in state["messages"][-1].text
        assert len(record.requests) == 9
        assert record.cuts == []
