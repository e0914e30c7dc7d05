"""What do the tests of the meter let a model talk about, and what changes on the way?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from integrations.openai.tests.null_server import NullServer
from kvagent_langchain.meter import KVMeter

from .caching_model import CachingModel

Head = Callable[[int], list[BaseMessage]]
Edit = Callable[[list[BaseMessage], int], list[BaseMessage]]


def chat(server: NullServer, **options: Any) -> ChatOpenAI:
    options = {"model": "m", "api_key": "x", "base_url": f"{server.url}/v1", **options}
    return ChatOpenAI(**options)


@tool
def look(path: str) -> str:
    """Look into a file."""
    return f"{path} holds " + "a line of text, and another one, " * 20


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def question(number: int) -> HumanMessage:
    return HumanMessage(f"Question {number}: what do you make of the case number {number * 7919}?")


def steady(number: int) -> list[BaseMessage]:
    return [SystemMessage("You help people who ask questions about servers. " * 4)]


def helper(number: int) -> Head:
    """One of several who begin alike."""
    return lambda _: [SystemMessage(f"You are helper number {number}. " * 5)]


def clock(number: int) -> list[BaseMessage]:
    return [SystemMessage(f"You help.\nCurrent time: 2026-11-30T13:{number:02}:07. Be brief.")]


def slid(history: list[BaseMessage], number: int) -> list[BaseMessage]:
    return history[-5:]


def talk(
    meter: KVMeter,
    turns: int,
    *,
    model: Any = None,
    head: Head = steady,
    edit: Edit = lambda history, number: history,
    bound: Callable[[int], dict[str, Any]] = lambda number: {},
    **config: Any,
) -> list[AIMessage]:
    """A conversation of so many turns; returns the replies."""
    model = model or CachingModel()
    history: list[BaseMessage] = []
    replies: list[AIMessage] = []
    for number in range(turns):
        history.append(question(number))
        messages = [*head(number), *edit(list(history), number)]
        options = bound(number)
        reply = model.invoke(messages, {"callbacks": [meter], **config}, **options)
        history.append(reply)
        replies.append(reply)
    return replies


def usages(replies: Sequence[AIMessage]) -> list[Any]:
    return [reply.usage_metadata for reply in replies]


def pending(meter: KVMeter) -> tuple[int, int]:
    return len(meter._runs), meter._pending_bytes
