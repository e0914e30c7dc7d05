"""Is a window smaller than believed learned, and a request that fits sent instead?"""

from __future__ import annotations

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from kvagent import Event, Overflowed, Policy
from kvagent_langchain.chat_model import chat_openai
from kvagent_langchain.middleware import KVAgentMiddleware

# Tests are no package, so there is no absolute name for this.
from ..task_agent import CONFIG, agent, model, task  # noqa: TID252
from ..task_server import task_server  # noqa: TID252
from .calling import Handler, asked, quiet, response_of


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
def test_a_window_smaller_than_believed_is_learned(raw: bool, streaming: bool) -> None:
    events: list[Event] = []
    with task_server(3000) as server:
        answering = (
            chat_openai("task", base_url=server.base_url, max_retries=0, streaming=streaming)
            if raw
            else model(server.base_url, streaming=streaming)
        )
        policy = Policy(window=30_000)
        working = agent(
            answering,
            [KVAgentMiddleware(policy, on_event=events.append)],
            checkpointer=InMemorySaver(),
        )
        for number in range(5):
            working.invoke(task(number), CONFIG)
        assert server.refused == 1
        assert len(server.bodies) == 25
    (overflowed,) = [event for event in events if isinstance(event, Overflowed)]
    assert overflowed.window == 3000


def test_what_cannot_be_made_to_fit_is_the_models_own_error() -> None:
    with task_server(300) as server:
        working = agent(server.base_url, [KVAgentMiddleware(Policy(window=30_000))])
        with pytest.raises(openai.BadRequestError) as raised:
            working.invoke({"messages": [{"role": "user", "content": "so long " * 500}]})
        assert "exceeds the available context size" in str(raised.value)
        assert not server.bodies


def test_an_overflow_told_within_a_stream_is_one() -> None:
    """The error has no status there."""
    body = {"code": 400, "message": "exceed_context_size_error: the request exceeds the available "
            "context size", "type": "exceed_context_size_error", "n_prompt_tokens": 9000,
            "n_ctx": 8000}  # fmt: skip
    error = openai.APIError("in the stream", request=None, body=body)  # type: ignore[arg-type]
    long = [
        message
        for at in range(20)
        for message in (
            HumanMessage(f"question {at}"),
            AIMessage("", tool_calls=[{"id": f"{at}", "name": "read", "args": {"task": at}}]),
            ToolMessage(f"line of {at}\n" * 200, tool_call_id=f"{at}"),
        )
    ]
    handler = Handler(error, AIMessage("fine"))
    middleware = quiet(policy=Policy(window=30_000, probe=False))
    handled = middleware.wrap_model_call(asked(*long), handler)
    assert response_of(handled).result == [AIMessage("fine")]
    first, second = (sum(len(m.text) for m in each.messages) for each in handler.requests)
    assert second < first
