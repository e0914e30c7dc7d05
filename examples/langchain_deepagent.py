"""A deepagents agent and its sub-agents, all of them kept: one profile, and no second summarizer."""

from __future__ import annotations

import os
from typing import Any

from deepagents import HarnessProfile, create_deep_agent, register_harness_profile
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

import kvagent
from kvagent_langchain import KVAgentMiddleware

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")

ORDERS = (
    "Have a sub-agent read the log of step 1, and one that of step 2.",
    "Now of steps 3 and 4.",
    "Which of them failed?",
)


@tool
def read_log(step: int) -> str:
    """Read what a step of the build has written."""
    lines = (f"12:{n:02}:07 step {step}: compiled unit_{n}.c" for n in range(60))
    return "\n".join(lines)


def show(event: kvagent.Event) -> None:
    """Print what happens while it happens; each agent is a conversation of its own."""
    if isinstance(event, kvagent.TurnFinished):
        counts = f"{event.cached_tokens} of {event.prompt_tokens} cached"
        print(f"{event.conversation} turn {event.turn}: {counts}")
    elif isinstance(event, kvagent.PrefixBroken):
        print(f"{event.conversation} prefix broken: {event.cause}: {event.detail}")


def main() -> None:
    model = ChatOpenAI(
        model=MODEL, base_url=BASE_URL, api_key=SecretStr("none"), max_completion_tokens=200
    )
    # `middleware=` would reach the main agent alone; a profile reaches its sub-agents as well.
    profile = HarnessProfile(
        extra_middleware=lambda: [KVAgentMiddleware(on_event=show)],
        excluded_middleware=frozenset({"SummarizationMiddleware"}),
    )
    register_harness_profile(f"openai:{MODEL}", profile)
    agent = create_deep_agent(
        model,
        [read_log],
        system_prompt="You look after a build.",
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "build-4711"}}
    for order in ORDERS:
        state = agent.invoke({"messages": [{"role": "user", "content": order}]}, thread)
        print(f"> {state['messages'][-1].text}")


if __name__ == "__main__":
    main()
