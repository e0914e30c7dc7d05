"""Does an agent whose prompts are kept stream as any other does?"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer

from kvagent_langchain import KVAgentMiddleware, chat_openai

from . import task_agent
from .record import Record, recorded
from .task_agent import CONFIG, POLICY, agent, task

MODES = ["messages", "updates", "values", "custom"]


@tool
def read(task: int, step: int) -> str:
    """Read what a step of a task is about."""
    get_stream_writer()({"step": step})
    return f"task {task} step {step}\n" + "".join(
        f"line {i}: {i * 7919 % 997}\n" for i in range(90)
    )


def made(record: Record, kind: str) -> Any:
    model = (
        chat_openai("task", base_url=record.base_url)
        if kind == "chat_openai"
        else task_agent.model(record.base_url, stream_usage=True)
    )
    middleware = KVAgentMiddleware(POLICY, on_event=record.on_event)
    return agent(model, [middleware], tools=[read], checkpointer=InMemorySaver())


def said(chunks: list[tuple[BaseMessage, Any]]) -> str:
    """The text that was streamed of replies."""
    return "".join(str(c.content) for c, _ in chunks if isinstance(c, AIMessageChunk))


def replies(messages: list[BaseMessage]) -> str:
    return "".join(str(m.content) for m in messages if isinstance(m, AIMessage))


@pytest.mark.parametrize("kind", ["ChatOpenAI", "chat_openai"])
async def test_streams_of_all_modes_tell_what_the_state_has(kind: str) -> None:
    """Also while old results are cleared."""
    with recorded() as record:
        working = made(record, kind)
        for number in range(4):
            streams: dict[str, list[Any]] = {mode: [] for mode in MODES}
            given = task(number)
            if number % 2:
                async for mode, chunk in working.astream(given, CONFIG, stream_mode=MODES):
                    streams[mode].append(chunk)
            else:
                for mode, chunk in working.stream(given, CONFIG, stream_mode=MODES):
                    streams[mode].append(chunk)
            messages = streams["values"][-1]["messages"]
            new = messages[-len(messages) + len(streams["values"][0]["messages"]) :]
            assert said(streams["messages"]) == replies(new)
            assert sorted(custom["step"] for custom in streams["custom"]) == [*range(5)]
            updates = [u for update in streams["updates"] for u in update.values()]
            # Results of calls made at once come as they are done.
            assert {m.id for u in updates for m in u["messages"]} == {m.id for m in new}
            # As LangGraph has it, private fields do show in streams of the state.
            assert all(set(value) == {"messages", "kvagent"} for value in streams["values"])
        assert record.edited("clear") or record.edited("compact")
        assert record.holds()
        assert all(request["stream"] for request in record.requests)
        assert set(working.invoke(task(4), CONFIG)) == {"messages"}
        results = [m for m in messages if isinstance(m, ToolMessage)]
        assert len(results) == 20
        assert all("line 89" in str(m.content) for m in results)


def test_a_streamed_run_sends_what_an_unstreamed_one_does() -> None:
    sent = []
    for streamed in (False, True):
        with recorded() as record:
            working = made(record, "chat_openai")
            for number in range(4):
                if streamed:
                    list(working.stream(task(number), CONFIG, stream_mode="messages"))
                else:
                    working.invoke(task(number), CONFIG)
            sent.append([r["messages"] for r in record.requests])
    assert sent[0] == sent[1]


async def test_events_are_told_once() -> None:
    """One model call is one start and one end, whatever the engine did to it."""
    with recorded() as record:
        working = made(record, "ChatOpenAI")
        kinds = [
            event["event"]
            for number in range(4)
            async for event in working.astream_events(task(number), CONFIG, version="v2")
        ]
        assert kinds.count("on_chat_model_start") == len(record.requests)
        assert kinds.count("on_chat_model_end") == len(record.requests)
        assert kinds.count("on_tool_end") == 20
        assert record.edited("clear") or record.edited("compact")


def test_a_consumer_that_leaves_early_can_come_back() -> None:
    """What was not answered is asked for again, with the same bytes before it."""
    with recorded() as record:
        working = made(record, "ChatOpenAI")
        stream = working.stream(task(0), CONFIG, stream_mode="messages")
        next(stream)
        stream.close()
        working.invoke(None, CONFIG)
        assert record.holds()
        for number in range(1, 3):
            working.invoke(task(number), CONFIG)
        assert record.holds()
