"""A stage of your own: secrets never leave in tool results. A stage is a callable on the turn."""

from __future__ import annotations

import os
import re
from typing import Any

from openai import OpenAI

import kvagent

BASE_URL = os.environ.get("KVAGENT_BASE_URL", "http://127.0.0.1:8000/v1")
MODEL = os.environ.get("KVAGENT_MODEL", "default")

SECRET = re.compile(r"(?i)(api[_-]?key\s*[=:]\s*)\S+")


def hide_secrets(turn: kvagent.Turn) -> None:
    """Only what is new can be changed here; what was sent before is replayed as it was."""
    for fresh in turn.tail:
        text = fresh.message.get("content")
        if fresh.role == "tool" and isinstance(text, str) and SECRET.search(text):
            fresh.message = {**fresh.message, "content": SECRET.sub(r"\1[hidden]", text)}
            turn.edits.append(kvagent.Edit("hide_secrets", "secret in a tool result", fresh.index))


def main() -> None:
    client = kvagent.wrap(
        OpenAI(base_url=BASE_URL, api_key="none"),
        stages=(hide_secrets, *kvagent.DEFAULT_STAGES),
        on_event=lambda event: print(event) if isinstance(event, kvagent.Edited) else None,
    )
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "read_file", "arguments": '{"path":".env"}'},
    }
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "What does .env set?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "PORT=80\nAPI_KEY=sk-123456"},
    ]
    reply = client.chat.completions.create(
        model=MODEL,
        messages=messages,  # type: ignore[arg-type]
        max_tokens=24,
    )
    print(reply.choices[0].message.content)


if __name__ == "__main__":
    main()
