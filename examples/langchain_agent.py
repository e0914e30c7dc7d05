"""An agent of LangChain with a checkpointer: whoever resumes its thread sends the same prompt."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRequest, dynamic_prompt
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

import kvagent
from kvagent_langchain import KVAgentMiddleware

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")

RULES = "You look after a build. Answer in one short sentence, and say which step failed. " * 3
QUESTIONS = ("What does the log say?", "Which step was it?", "What would you do?", "Any warnings?")


@tool
def read_log(step: str) -> str:
    """Read what a step of the build has written."""
    lines = (f"12:{n:02}:07 {step}: compiled unit_{n}.c" for n in range(20))
    return "\n".join([*lines, f"12:20:07 {step}: error: unit_20.c: no such file"])


@dynamic_prompt
def clock(_: ModelRequest[Any]) -> str:
    """The time in front of everything: without kvagent, nothing would come from the cache."""
    return f"Current time: {datetime.now().isoformat(timespec='milliseconds')}\n{RULES}"


def show(event: kvagent.Event) -> None:
    """Print what happens while it happens."""
    if isinstance(event, kvagent.TurnFinished):
        print(f"  turn {event.turn}: {event.cached_tokens} of {event.prompt_tokens} cached")
    elif isinstance(event, kvagent.PrefixBroken):
        print(f"  prefix broken: {event.cause}: {event.detail}")


def made(saver: InMemorySaver, middleware: KVAgentMiddleware) -> Any:
    """The agent, as any process would make it."""
    key = SecretStr("none")
    model = ChatOpenAI(
        model=MODEL, base_url=BASE_URL, api_key=key, max_completion_tokens=24, temperature=0
    )
    return create_agent(model, [read_log], middleware=[clock, middleware], checkpointer=saver)


def opening() -> list[Any]:
    """The log is read already: a model as small as the demo's calls no tool by itself."""
    call = {"name": "read_log", "args": {"step": "link"}, "id": "call_1"}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    log = read_log.invoke({"step": "link"})
    return [said, {"role": "tool", "content": log, "tool_call_id": "call_1"}]


def main() -> None:
    saver = InMemorySaver()  # or SqliteSaver, or PostgresSaver
    thread: Any = {"configurable": {"thread_id": "build-4711"}}
    questions = iter(QUESTIONS)
    for name in ("one process", "another"):
        print(f"{name}:")
        agent = made(saver, KVAgentMiddleware(on_event=show))  # it knows nothing but the thread
        for question in (next(questions), next(questions)):
            messages: list[Any] = [{"role": "user", "content": question}]
            if question == QUESTIONS[0]:
                messages += opening()
            state = agent.invoke({"messages": messages}, thread)
    print(f"{len(state['messages'])} messages in the state, each as it was said")


if __name__ == "__main__":
    main()
