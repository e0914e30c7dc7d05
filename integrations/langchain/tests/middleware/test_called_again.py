"""Is a call that another middleware makes again, or of another model, the same?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
)
from langgraph.checkpoint.memory import InMemorySaver

from kvagent import Policy
from kvagent_langchain.middleware import KVAgentMiddleware

# Tests are no package, so there is no absolute name for this.
from ..task_agent import CONFIG, POLICY, agent, model, task  # noqa: TID252
from ..task_server import TaskServer  # noqa: TID252
from .calling import NOWHERE

# Two tasks are shortened and cleared in it.
NARROW = Policy(window=1500)


class Twice(AgentMiddleware[Any, Any, Any]):
    """Calls the model again, and takes the second answer."""

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        handler(request)
        return handler(request)


class Failing(AgentMiddleware[Any, Any, Any]):
    """Every second call of the model fails."""

    calls = 0

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.calls += 1
        if self.calls % 2:
            raise ConnectionError
        return handler(request)


def retry() -> ModelRetryMiddleware:
    return ModelRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)


@pytest.mark.parametrize("checkpointed", [True, False])
@pytest.mark.parametrize(
    ("outside", "inside", "calls"),
    [
        ([], [], 1),
        ([Twice], [], 2),
        ([], [Twice], 2),
        ([retry], [Failing], 1),
        ([], [retry, Failing], 1),
    ],
    ids=["alone", "twice outside", "twice inside", "retry outside", "retry inside"],
)
def test_calls_made_again_are_the_same(
    tasks: TaskServer,
    checkpointed: bool,
    outside: list[Any],
    inside: list[Any],
    calls: int,
) -> None:
    middleware: list[Any] = [
        *(make() for make in outside),
        KVAgentMiddleware(NARROW),
        *(make() for make in inside),
    ]
    options = {"checkpointer": InMemorySaver()} if checkpointed else {}
    working = agent(tasks.base_url, middleware, **options)
    messages: list[Any] = []
    for number in range(2):
        given = task(number)["messages"]
        messages = working.invoke(
            {"messages": [*([] if checkpointed else messages), *given]}, CONFIG
        )["messages"]
    sent = tasks.bodies[::calls]
    assert all(tasks.bodies[at::calls] == sent for at in range(calls))
    plain = agent(tasks.base_url, [KVAgentMiddleware(NARROW)], checkpointer=InMemorySaver())
    tasks.bodies.clear()
    for number in range(2):
        plain.invoke(task(number), CONFIG)
    assert sent == tasks.bodies


def test_another_model_may_take_over(tasks: TaskServer) -> None:
    """It is sent the whole conversation, and its prompts grow as well."""
    fallback = model(tasks.base_url).model_copy(update={"model_name": "other"})
    middleware: list[Any] = [ModelFallbackMiddleware(fallback), KVAgentMiddleware(POLICY)]
    working = agent(model(NOWHERE), middleware, checkpointer=InMemorySaver())
    for number in range(2):
        working.invoke(task(number), CONFIG)
    requests = tasks.requests
    assert len(requests) == 10
    assert {request["model"] for request in requests} == {"other"}
    for before, after in pairwise(requests):
        assert after["messages"][: len(before["messages"])] == before["messages"]
