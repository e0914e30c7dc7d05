"""Does structured output come out of an agent whose prompts are kept, however it is asked for?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from kvagent_langchain import KVAgentMiddleware

from . import task_server
from .record import recorded
from .task_agent import CONFIG, POLICY, agent, model, task

STRATEGIES: dict[str, Callable[[type[BaseModel]], Any]] = {
    "auto": AutoStrategy,
    "provider": ProviderStrategy,
    "schema": lambda schema: schema,
    "tool": ToolStrategy,
}


class Outcome(BaseModel):
    """What came of a task."""

    task: int
    steps: int = Field(ge=1)


def reply(request: Mapping[str, Any]) -> dict[str, Any]:
    """As the scripted model, but what it says at the end has the form that is asked for."""
    told = task_server.reply(request)
    if told.get("tool_calls"):
        return told
    messages = request["messages"]
    users = [m["content"] for m in messages if m["role"] == "user"]
    outcome = {"task": int(users[-1].split(":")[0].removeprefix("task ")), "steps": 5}
    if request.get("response_format"):
        return {**told, "content": json.dumps(outcome, separators=(",", ":"))}
    if any(tool["function"]["name"] == "Outcome" for tool in request["tools"]):
        # The first answer is wrong, and said so.
        once = messages[-1]["role"] == "tool" and "rror" in str(messages[-1]["content"])
        outcome["steps"] = 5 if once or outcome["task"] else 0
        written = json.dumps(outcome, separators=(",", ":"))
        call = {"name": "Outcome", "arguments": written}
        name = f"out_{outcome['task']}_{once}"
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": call}],
        }
    return told


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_structured_answer_comes_out(strategy: str) -> None:
    """Turn by turn, with calls before it; by a tool, one that does not fit is asked for anew."""
    with recorded(answer=reply) as record:
        working = agent(
            model(record.base_url),
            [KVAgentMiddleware(POLICY, on_event=record.on_event)],
            response_format=STRATEGIES[strategy](Outcome),
            checkpointer=InMemorySaver(),
        )
        for number, way in enumerate(("invoke", "ainvoke", "stream")):
            if way == "invoke":
                working.invoke(task(number), CONFIG)
            elif way == "ainvoke":
                await working.ainvoke(task(number), CONFIG)
            else:
                list(working.stream(task(number), CONFIG, stream_mode=["messages", "updates"]))
            state = working.get_state(CONFIG).values
            assert state["structured_response"] == Outcome(task=number, steps=5)
        assert record.holds()
        assert not record.breaks
        by_tool = strategy == "tool" or not record.requests[0].get("response_format")
        said = [m for m in state["messages"] if isinstance(m, ToolMessage) and m.name == "Outcome"]
        assert len(said) == (4 if by_tool else 0)
        assert record.edited("clear") or record.edited("compact")


def test_structured_answers_cost_no_prefix() -> None:
    """The wire only grows; each token is prefilled once, whichever strategy it is."""
    for make in STRATEGIES.values():
        with recorded(answer=reply) as record:
            working = agent(
                model(record.base_url),
                [KVAgentMiddleware(POLICY.model_copy(update={"window": 100_000}))],
                response_format=make(Outcome),
                checkpointer=InMemorySaver(),
            )
            for number in range(2):
                working.invoke(task(number), CONFIG)
            assert record.cuts == []
            floor = len(json.dumps(record.requests[-1], ensure_ascii=False).encode()) // 4
            assert record.prefilled <= 1.05 * floor
