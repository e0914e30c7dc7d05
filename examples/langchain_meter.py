"""Measure an application that somebody else wrote, on any chat model of LangChain: what is cached, and why not?"""

from __future__ import annotations

import os
from datetime import datetime

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

import kvagent
from kvagent_langchain.meter import KVMeter, kv_meter

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")

RULES = "You explain how servers of language models work, in one sentence and without a list. " * 3
QUESTIONS = ("What is a KV cache?", "Why is its prefix so valuable?", "Say it shorter.")


def application(model: ChatOpenAI, clock_in_front: bool) -> None:
    """Somebody else's chat: it knows nothing of the meter, and tells the model what time it is."""
    history: list[BaseMessage] = []
    for question in QUESTIONS:
        clock = f"Current time: {datetime.now().isoformat(timespec='milliseconds')}"
        head = SystemMessage(f"{clock}\n{RULES}" if clock_in_front else RULES)
        history.append(HumanMessage(question if clock_in_front else f"{question}\n\n{clock}"))
        history.append(model.invoke([head, *history]))


def measured(model: ChatOpenAI, clock_in_front: bool) -> KVMeter:
    # Or without a block: {"callbacks": [KVMeter()]} in the config of an agent, a chain or a model.
    with kv_meter(on_event=show) as meter:
        application(model, clock_in_front)
    print(f"\n{meter}\n")
    return meter


def show(event: kvagent.Event) -> None:
    """Print what happens while it happens."""
    if isinstance(event, kvagent.TurnFinished):
        print(f"turn {event.turn}: {event.cached_tokens} of {event.prompt_tokens} cached")
    elif isinstance(event, kvagent.PrefixBroken):
        print(f"  {event.cause}: {event.detail}")


def main() -> None:
    model = ChatOpenAI(
        model=MODEL,
        base_url=BASE_URL,
        api_key=SecretStr("none"),
        stream_usage=True,  # or streamed replies of a server of one's own are not counted
        max_completion_tokens=24,
    )
    before = measured(model, clock_in_front=True)
    after = measured(model, clock_in_front=False)
    if before.hit_rate is not None and after.hit_rate is not None:
        print(f"hit rate {before.hit_rate:.0%} with a clock in front, {after.hit_rate:.0%} without")


if __name__ == "__main__":
    main()
