"""Do agents within agents keep their prompts, and their memories to themselves?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from kvagent_langchain import KVAgentMiddleware

from . import task_server
from .record import Record, recorded
from .task_agent import CONFIG, POLICY, agent, model, read, task

LARGE = POLICY.model_copy(update={"window": 100_000})


def _graph(inner: Any, checkpointer: Any) -> Any:
    """The agent as a node between others, which say something themselves."""
    graph = StateGraph(MessagesState)
    graph.add_node("before", lambda state: {"messages": [HumanMessage("Be quick.")]})
    graph.add_node("agent", inner)
    graph.add_node("after", lambda state: {"messages": [HumanMessage("Thank you.")]})
    graph.add_edge(START, "before")
    graph.add_edge("before", "agent")
    graph.add_edge("agent", "after")
    graph.add_edge("after", END)
    return graph.compile(checkpointer=checkpointer)


@pytest.mark.parametrize("kept", [None, True], ids=["by the graph", "by itself"])
@pytest.mark.parametrize("saver", [False, True], ids=["none", "saver"])
async def test_an_agent_as_a_node_with_shared_messages(saver: bool, kept: bool | None) -> None:
    """The graph knows its messages alone; what the agent sent it finds by them."""
    with recorded() as record:
        middleware = KVAgentMiddleware(POLICY, on_event=record.on_event)
        inner = agent(record.base_url, [middleware], checkpointer=kept if saver else None)
        outer = _graph(inner, InMemorySaver() if saver else None)
        messages: list[Any] = []
        for number in range(4):
            given = task(number)["messages"]
            asked = {"messages": given if saver else [*messages, *given]}
            if number % 2:
                state = await outer.ainvoke(asked, CONFIG)
            else:
                state = outer.invoke(asked, CONFIG)
            assert set(state) == {"messages"}
            messages = state["messages"]
        assert record.holds()
        assert not record.breaks
        assert record.edited("clear") or record.edited("compact")
        assert all("line 59" in m.text for m in messages if m.type == "tool")


def test_streams_of_subgraphs() -> None:
    with recorded() as record:
        inner = agent(record.base_url, [KVAgentMiddleware(POLICY, on_event=record.on_event)])
        outer = _graph(inner, InMemorySaver())
        for number in range(4):
            stream = outer.stream(
                task(number), CONFIG, stream_mode=["messages", "updates"], subgraphs=True
            )
            chunks = [
                chunk[0].text
                for space, mode, chunk in stream
                if mode == "messages" and space and chunk[0].type == "AIMessageChunk"
            ]
            assert f"Task {number} is done" in "".join(chunks)
        assert record.holds()
        assert record.edited("clear") or record.edited("compact")


# A boss has its tasks done by others, and by more than one at once.
BOSS = re.compile(r"(\d+) tasks of (\d+) steps")


def reply(request: Mapping[str, Any]) -> dict[str, Any]:
    """The scripted model, and its boss, who gives two tasks at a time to others."""
    messages = request["messages"]
    asked = [m["content"] for m in messages if m["role"] == "user"]
    boss = BOSS.search(asked[-1])
    if boss is None:
        return task_server.reply(request)
    tasks, steps = map(int, boss.groups())
    done = 0
    for message in reversed(messages):
        if message["role"] == "user":
            break
        done += message["role"] == "tool"
    if done == tasks:
        return {"role": "assistant", "content": "All is done."}
    base = 100 * len(asked)
    calls = [
        {
            "id": f"call_{base}_{number}",
            "type": "function",
            "function": {
                "name": "delegate",
                "arguments": f'{{"order":"task {base + number}: {steps} steps"}}',
            },
        }
        for number in range(done, min(tasks, done + 2))
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _delegate(worker: Any) -> BaseTool:
    @tool
    def delegate(order: str) -> str:
        """Have a task done."""
        state = worker.invoke({"messages": [HumanMessage(order)]})
        assert set(state) == {"messages"}
        return str(state["messages"][-1].text)

    return delegate


def _boss(record: Record, shared: bool, store: str | None = None) -> Any:
    def middleware() -> KVAgentMiddleware:
        return KVAgentMiddleware(POLICY, store=store, on_event=record.on_event)

    one = middleware()
    worker = create_agent(
        model(record.base_url),
        [read],
        system_prompt="You do tasks.",
        middleware=[one if shared else middleware()],
    )
    return create_agent(
        model(record.base_url),
        [_delegate(worker)],
        system_prompt="You give orders.",
        middleware=[one],
        checkpointer=InMemorySaver(),
    )


@pytest.mark.parametrize("store", [None, "store"], ids=["in states", "in a store"])
@pytest.mark.parametrize("shared", [False, True], ids=["two middlewares", "one middleware"])
def test_an_agent_as_a_tool_of_another(tmp_path: Any, shared: bool, store: str | None) -> None:
    """Two at a time: each has its own prompt, and its own memory of it."""
    with recorded(answer=reply) as record:
        boss = _boss(record, shared, None if store is None else str(tmp_path / "kv.db"))
        for turn in range(2):
            boss.invoke({"messages": [HumanMessage(f"turn {turn}: 4 tasks of 6 steps")]}, CONFIG)
        requests = record.requests
        names = {name for r in requests for t in r["tools"] for name in [t["function"]["name"]]}
        assert names == {"delegate", "read"}
        assert record.cuts == []
        assert not record.breaks
        # No text of one task is in the prompt of another.
        for request in requests:
            if request["tools"][0]["function"]["name"] == "read":
                text = str(request["messages"])
                assert len(set(re.findall(r"task (\d+): 6 steps", text))) == 1
                assert set(re.findall(r"of (\d+)/", text)) <= set(
                    re.findall(r"task (\d+): 6 steps", text)
                )
        state = boss.get_state(CONFIG).values
        results = [m.text for m in state["messages"] if m.type == "tool"]
        assert len(results) == 8
        assert all(result.endswith("is done: é, 日本, 🎉.") for result in results)


async def test_an_agent_handed_over_to_another() -> None:
    """Two agents with prompts of their own take turns at the same messages."""
    with recorded() as record:
        middleware = KVAgentMiddleware(LARGE, on_event=record.on_event)
        first, second = (
            agent(record.base_url, [middleware], system_prompt=f"You are the {name}.", name=name)
            for name in ("first", "second")
        )
        graph = StateGraph(MessagesState)
        graph.add_node("first", first)
        graph.add_node("second", second)
        graph.add_conditional_edges(
            START,
            lambda state: ("first", "second")[
                sum(m.type == "human" for m in state["messages"]) % 2
            ],
        )
        graph.add_edge("first", END)
        graph.add_edge("second", END)
        both: Any = graph.compile(checkpointer=InMemorySaver())
        for number in range(6):
            await both.ainvoke(task(number, steps=2), CONFIG)
        for name in ("first", "second"):
            own = [
                r for r in record.requests if r["messages"][0]["content"] == f"You are the {name}."
            ]
            assert len(own) > 6
            for before, request in pairwise(own):
                length = len(before["messages"])
                assert request["messages"][:length] == before["messages"]
        state = (await both.aget_state(CONFIG)).values
        assert sum(isinstance(m, AIMessage) for m in state["messages"]) == len(record.requests)
