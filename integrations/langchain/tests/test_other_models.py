"""Is a model that is not ChatOpenAI served as well?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from kvagent import Edited, Event, Policy, PrefixBroken, TurnFinished
from kvagent_langchain import KVAgentMiddleware

from .task_agent import CONFIG, agent, task
from .task_server import TASK

SMALL = Policy(window=1500)


class Scripted(BaseChatModel):
    """A model in this process: it does the task it was given, and counts words as tokens."""

    seen: list[list[BaseMessage]] = Field(default_factory=list)
    cached: bool = True
    """Whether it tells what it took from its cache."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[t.name if isinstance(t, BaseTool) else str(t) for t in tools])

    def _said(self, messages: list[BaseMessage]) -> AIMessage:
        before = max(map(len, ([], *(m for m in self.seen if messages[: len(m)] == m))))
        self.seen.append(list(messages))
        words = [len(str(m.content).split()) for m in messages]
        at = max(i for i, m in enumerate(messages) if TASK.search(m.text))
        number, steps = map(int, TASK.search(messages[at].text).groups())  # type: ignore[union-attr]
        step = sum(m.type == "tool" for m in messages[at:])
        usage = UsageMetadata(input_tokens=sum(words), output_tokens=5, total_tokens=sum(words) + 5)
        if self.cached:
            usage["input_token_details"] = InputTokenDetails(cache_read=sum(words[:before]))
        calls: Any = [
            {"name": "read", "args": {"task": number, "step": step}, "id": f"{number}{step}"}
        ]
        content = [{"type": "text", "text": f"Step {step}."}] if step < steps else "It is done."
        return AIMessage(
            content=content,  # type: ignore[arg-type]
            tool_calls=calls if step < steps else [],
            usage_metadata=usage,
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._said(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = self._said(messages)
        yield ChatGenerationChunk(message=AIMessageChunk(**said.model_dump(exclude={"type"})))


def cuts(seen: list[list[BaseMessage]]) -> set[int]:
    """The calls whose prompt does not begin as the one before."""
    return {at for at, (old, now) in enumerate(pairwise(seen), 1) if now[: len(old)] != old}


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
@pytest.mark.parametrize("cached", [True, False])
async def test_a_model_of_ones_own(cached: bool, way: str) -> None:
    """What it is sent only grows, but for the edits that are told; its own counts are told."""
    events: list[Event] = []
    edited: set[int] = set()
    chat = Scripted(cached=cached)

    def told(event: Event) -> None:
        events.append(event)
        if isinstance(event, Edited) and event.stage in ("clear", "compact"):
            edited.add(len(chat.seen) - 1)

    working = agent(chat, [KVAgentMiddleware(SMALL, on_event=told)], checkpointer=InMemorySaver())
    for number in range(5):
        if way == "ainvoke":
            await working.ainvoke(task(number), CONFIG)
        elif way == "invoke":
            working.invoke(task(number), CONFIG)
        else:
            list(working.stream(task(number), CONFIG, stream_mode="messages"))
    assert edited
    assert cuts(chat.seen) == edited
    assert not any(isinstance(e, PrefixBroken) for e in events)
    turns = [e for e in events if isinstance(e, TurnFinished)]
    assert len(turns) == len(chat.seen) == 30
    assert turns[0].prompt_tokens == sum(len(str(m.content).split()) for m in chat.seen[0])
    assert all((turn.cached_tokens is not None) == cached for turn in turns)
    state = working.get_state(CONFIG).values
    calls = [m for m in state["messages"] if m.type == "ai" and m.tool_calls]
    assert [(c["args"]["task"], c["args"]["step"]) for m in calls for c in m.tool_calls] == [
        (number, step) for number in range(5) for step in range(5)
    ]
    assert not any(m.additional_kwargs for m in state["messages"])
    assert all("line 59" in m.text for m in state["messages"] if m.type == "tool")


def test_langchains_own_fake() -> None:
    """No usage, no tools, replies that stream word by word."""
    events: list[Event] = []
    replies = iter([AIMessage(f"This is reply number {n}.") for n in range(4)])
    working = agent(
        GenericFakeChatModel(messages=replies),
        [KVAgentMiddleware(SMALL, on_event=events.append)],
        tools=[],
        checkpointer=InMemorySaver(),
    )
    for number in range(2):
        working.invoke(task(number), CONFIG)
    streamed = [
        chunk.text
        for chunk, _ in working.stream(task(2), CONFIG, stream_mode="messages")
        if chunk.type == "AIMessageChunk"
    ]
    assert "".join(streamed) == "This is reply number 2."
    assert not any(isinstance(e, PrefixBroken) for e in events)
    turns = [e for e in events if isinstance(e, TurnFinished)]
    assert [turn.turn for turn in turns] == [1, 2, 3]
    assert {turn.prompt_tokens for turn in turns} == {None}
