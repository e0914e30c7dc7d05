"""Does the meter tell of an agent's conversations, by their names, and of what a middleware does to them?"""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langgraph.checkpoint.memory import InMemorySaver

import kvagent
from kvagent_langchain.meter import KVMeter, kv_meter

from .caching_model import CachingModel
from .talks import add, look, question, talk


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
