"""Far more turns than the window holds: old results are cleared, old turns become a record."""

from __future__ import annotations

import json
import os
from typing import Any

from openai import OpenAI

import kvagent
from kvagent import Edited, Policy
from kvagent_openai import engine_of

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")
TURNS = 10


def tell(event: kvagent.Event) -> None:
    if isinstance(event, Edited) and event.stage in ("clear", "compact"):
        print(f"{event.stage}: {event.freed_tokens} tokens freed, {event.cost_tokens} to prefill again"
              f" ({event.detail})")  # fmt: skip


def main() -> None:
    plain = OpenAI(base_url=BASE_URL, api_key="none")
    policy = Policy(window=2_200)  # your server says its own; this one is small on purpose
    client = kvagent.wrap(plain, policy=policy, on_event=tell)
    messages: list[Any] = [{"role": "user", "content": "Check the shops. Never order anything."}]
    for number in range(TURNS):
        reply = client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=8, temperature=0
        )
        assert reply.usage is not None
        print(f"turn {number + 1}: {reply.usage.prompt_tokens} prompt tokens")
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "read", "arguments": json.dumps({"shop": f"shop-{number}"})},
        }
        stock = "\n".join(f"item-{number}-{i}: {i * 37 % 90} in stock" for i in range(30))
        messages += [
            {
                "role": "assistant",
                "content": reply.choices[0].message.content,
                "tool_calls": [call],
            },
            {"role": "tool", "tool_call_id": call["id"], "content": stock},
        ]
    print(engine_of(client).meter.bill())


if __name__ == "__main__":
    main()
