"""Three sub-agents go on from one history, in parallel: they share its prefix, and none is a break."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openai import OpenAI

import kvagent

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")


def main() -> None:
    events: list[kvagent.Event] = []
    client = kvagent.wrap(OpenAI(base_url=BASE_URL, api_key="none"), on_event=events.append)

    def ask(messages: list[dict[str, Any]]) -> str:
        reply = client.chat.completions.create(
            model=MODEL,
            messages=messages,  # type: ignore[arg-type]
            max_tokens=24,
        )
        return reply.choices[0].message.content or ""

    history = [
        {"role": "system", "content": "You plan the work of a small team. " * 20},
        {"role": "user", "content": "Name three things that a release needs."},
    ]
    plan = ask(history)
    history.append({"role": "assistant", "content": plan})

    # Each branch keeps the very messages that were sent and adds its own.
    branches = [
        [*history, {"role": "user", "content": f"Work out point {number}."}] for number in (1, 2, 3)
    ]
    with ThreadPoolExecutor(3) as pool:
        for answer in pool.map(ask, branches):
            print("-", answer.strip()[:60])

    for event in events:
        if isinstance(event, kvagent.TurnFinished):
            print(f"turn {event.turn}: {event.cached_tokens} of {event.prompt_tokens} cached")
    broken = sum(isinstance(event, kvagent.PrefixBroken) for event in events)
    print(f"prefix breaks: {broken}")


if __name__ == "__main__":
    main()
