"""How does an agent call the middleware, and what was the model handed?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from kvagent import Policy
from kvagent_langchain.middleware import KVAgentMiddleware

# Tests are no package, so there is no absolute name for this.
from ..task_agent import model, read  # noqa: TID252

NOWHERE = "http://127.0.0.1:9/v1"
LONG = "a long result\n" * 2000


def asked(*messages: AnyMessage, **options: Any) -> ModelRequest[Any]:
    """A request as an agent makes it; nothing is asked of a server."""
    options = {"model": model(NOWHERE), "tools": [read], **options}
    state: Any = {"messages": list(messages), **options.pop("state", {})}
    return ModelRequest(messages=list(messages), state=state, **options)


def quiet(**options: Any) -> KVAgentMiddleware:
    """It does not ask servers what they are."""
    policy = options.pop("policy", Policy(window=4000, probe=False))
    return KVAgentMiddleware(policy, **options)


CONVERSATION: tuple[AnyMessage, ...] = (
    HumanMessage("look"),
    AIMessage("", tool_calls=[{"id": "1", "name": "read", "args": {"task": 1, "step": 2}}]),
    ToolMessage(LONG, tool_call_id="1"),
)


class Handler:
    """The model, and what it was handed."""

    def __init__(self, *outcomes: AIMessage | BaseException) -> None:
        self.outcomes = list(outcomes) or [AIMessage("fine")]
        self.requests: list[ModelRequest[Any]] = []

    def __call__(self, request: ModelRequest[Any]) -> ModelResponse[Any]:
        self.requests.append(request)
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return ModelResponse([outcome])

    async def acall(self, request: ModelRequest[Any]) -> ModelResponse[Any]:
        return self(request)


Calling = Callable[[KVAgentMiddleware, ModelRequest[Any], Handler], Any]


def sync_call(middleware: KVAgentMiddleware, request: ModelRequest[Any], handler: Handler) -> Any:
    return middleware.wrap_model_call(request, handler)


def async_call(middleware: KVAgentMiddleware, request: ModelRequest[Any], handler: Handler) -> Any:
    async def call() -> Any:
        return await middleware.awrap_model_call(request, handler.acall)

    return asyncio.run(call())


BOTH_WAYS = pytest.mark.parametrize("call", [sync_call, async_call])


def response_of(handled: Any) -> ModelResponse[Any]:
    return handled.model_response if isinstance(handled, ExtendedModelResponse) else handled


def boom(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError
