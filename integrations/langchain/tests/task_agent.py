"""What do the tests' agents do all day? Tasks of a ``TaskServer``, in a window that is too small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from kvagent import Policy

POLICY = Policy(window=4000)
"""Six tasks of five steps are shortened, cleared and compacted in it."""

CONFIG: Any = {"configurable": {"thread_id": "1"}}


@tool
def read(task: int, step: int) -> str:
    """Read what a step of a task is about."""
    lines = (f"line {line} of {task}/{step}: value {line * 7919 % 1000}" for line in range(60))
    return f"task {task} step {step}\n" + "\n".join(lines)


def task(number: int, steps: int = 5) -> dict[str, Any]:
    """What the user says."""
    return {"messages": [{"role": "user", "content": f"task {number}: {steps} steps"}]}


def model(base_url: str, **options: Any) -> ChatOpenAI:
    """A model that answers as a ``TaskServer`` does."""
    key = SecretStr("x")
    return ChatOpenAI(model="task", base_url=base_url, api_key=key, max_retries=0, **options)


def agent(
    chat_model: BaseChatModel | str,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]],
    **options: Any,
) -> Any:
    """An agent that reads; ``chat_model`` may be a server's address."""
    options = {"tools": [read], "system_prompt": "You do tasks.", **options}
    if isinstance(chat_model, str):
        chat_model = model(chat_model)
    return create_agent(chat_model, middleware=middleware, **options)
