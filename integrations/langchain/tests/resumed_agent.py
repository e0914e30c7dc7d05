"""Does an agent's work, until it is broken off; run again, it goes on from the checkpoint file.

Python and LangChain take seconds to start, so this program starts once and is told line by line
what to do: FILE BASE_URL (sync|async) (plain|raw) TASKS AT HOW. Each line is done by a process of
its own, forked from one in which nothing has happened but imports. ``AT`` counts the calls of model
and tools of that process; ``HOW`` is one of ``HOWS``, or "never". What is written for a line is the
exit status: 0 when all is done, ``BROKEN`` when it was broken off.
"""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from collections.abc import Callable
from threading import Lock
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from kvagent.tokens import count_tokens
from kvagent_langchain.chat_model import chat_openai
from kvagent_langchain.middleware import KVAgentMiddleware

from . import task_agent
from .task_agent import CONFIG, POLICY, agent, task

BROKEN = 3
HOWS = ("exit", "exit before", "raise", "raise before", "interrupt")


class Broken(Exception):
    """Something went wrong."""


class Breaker(AgentMiddleware[Any, Any, Any]):
    """Breaks off the n-th call of the model or of a tool: before it is made, or once it is."""

    def __init__(self, at: int, how: str) -> None:
        super().__init__()
        self._at, self._how = at, how
        self._calls = 0
        self._lock = Lock()

    def broken(self, before: bool, within_tool: bool) -> None:
        with self._lock:
            self._calls += before
            due = self._calls == self._at
        if not due or self._how == "never":
            return
        if self._how == "interrupt":
            if within_tool and before:
                interrupt("may I?")
            elif not within_tool and not before:
                raise Broken
        elif self._how.endswith("before") == before:
            if self._how.startswith("exit"):
                os._exit(BROKEN)
            raise Broken

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.broken(before=True, within_tool=False)
        response = handler(request)
        self.broken(before=False, within_tool=False)
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self.broken(before=True, within_tool=False)
        response = await handler(request)
        self.broken(before=False, within_tool=False)
        return response


class FileSaver(SqliteSaver):  # type: ignore[misc]  # not installed where types are checked
    """For coroutines, too: LangGraph's own for them does not run with every aiosqlite."""

    async def aget_tuple(self, *arguments: Any) -> Any:
        return self.get_tuple(*arguments)

    async def aput(self, *arguments: Any) -> Any:
        return self.put(*arguments)

    async def aput_writes(self, *arguments: Any) -> None:
        self.put_writes(*arguments)


def made(model: BaseChatModel, at: int, how: str, saver: Any) -> Any:
    """The agent; the same in every process."""
    breaker = Breaker(at, how)

    @tool
    def read(task: int, step: int) -> str:
        """Read what a step of a task is about."""
        breaker.broken(before=True, within_tool=True)
        text = task_agent.read.invoke({"task": task, "step": step})
        breaker.broken(before=False, within_tool=True)
        return str(text)

    middleware = [KVAgentMiddleware(POLICY), breaker]
    return agent(model, middleware, tools=[read], checkpointer=saver)


def due(state: Any, tasks: int) -> Any:
    """What to invoke the agent with now; "done" when there is nothing left."""
    if state.interrupts:
        return Command(resume="yes")
    if state.tasks:  # those whose results wait to be put into the state, too
        return None
    given = sum(message.type == "human" for message in state.values.get("messages", ()))
    return "done" if given == tasks else task(given)


def run(file: str, model: BaseChatModel, tasks: int, at: int, how: str) -> bool:
    """Whether all was done."""
    with FileSaver.from_conn_string(file) as saver:
        working = made(model, at, how, saver)
        while (given := due(working.get_state(CONFIG), tasks)) != "done":
            try:
                working.invoke(given, CONFIG)
            except Broken:
                return False
            if working.get_state(CONFIG).interrupts:
                return False
    return True


async def arun(file: str, model: BaseChatModel, tasks: int, at: int, how: str) -> bool:
    """``run`` with coroutines."""
    with FileSaver.from_conn_string(file) as saver:
        working = made(model, at, how, saver)
        while (given := due(await working.aget_state(CONFIG), tasks)) != "done":
            try:
                await working.ainvoke(given, CONFIG)
            except Broken:
                return False
            if (await working.aget_state(CONFIG)).interrupts:
                return False
    return True


def work(file: str, base_url: str, way: str, kind: str, tasks: str, at: str, how: str) -> int:
    """One process's part; returns its exit status."""
    model = (
        chat_openai("task", base_url=base_url, max_retries=0)
        if kind == "raw"
        else task_agent.model(base_url)
    )
    arguments = file, model, int(tasks), int(at), how
    done = asyncio.run(arun(*arguments)) if way == "async" else run(*arguments)
    return 0 if done else BROKEN


def main() -> None:
    count_tokens("")  # reads the tokenizer's file
    for line in sys.stdin:
        child = os.fork()
        if not child:
            status = 1
            try:
                status = work(*line.rstrip("\n").split("\t"))
            except BaseException:  # noqa: BLE001 - the child ends here, come what may
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, waited = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(waited), flush=True)


if __name__ == "__main__":
    main()
