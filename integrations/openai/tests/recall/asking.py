"""How does a model ask kvagent something, and what does its caller get?"""

from __future__ import annotations

import json
from typing import Any

from kvagent.recall import RECALL

# Tests are no package, so there is no absolute name for this.
from ..conftest import done  # noqa: TID252
from ..null_server import Answer, Seen, completion, events, sse  # noqa: TID252

LONG = "\n".join(
    f"line {n}: job {n * 7919 % 100_003} took {n * 31 % 997} ms" for n in range(1, 901)
)
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
]
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Look."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call-1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "call-1", "content": LONG},
]
FINAL = {"content": "Job 7919 took 31 ms."}
USAGE = b'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"null","choices":[],'


def usage_chunk(prompt: int) -> bytes:
    usage = {"prompt_tokens": prompt, "completion_tokens": 7, "total_tokens": prompt + 7}
    return USAGE + b'"usage":' + json.dumps(usage).encode() + b"}\n\n"


def calling(name: str, arguments: dict[str, Any], id: str, content: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "content": content or None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


def handle_in(seen: Seen) -> str:
    return str(seen.messages[2]["content"]).split('recall("')[1].split('"')[0]


class Model:
    """Asks for lines of the long result so many times, then says its last word."""

    def __init__(self, times: int = 1, final: Any = FINAL, text: str = "") -> None:
        self.times = times
        self.final = final
        self.text = text
        self.asked = 0

    def __call__(self, seen: Seen) -> Answer:
        if self.asked >= self.times:
            reply = self.final(seen) if callable(self.final) else self.final
        else:
            self.asked += 1
            part = {"handle": handle_in(seen), "lines": f"{self.asked}"}
            reply = calling(RECALL, part, f"ask-{self.asked}", self.text)
        if isinstance(reply, Answer):
            return reply
        if not seen.json.get("stream"):
            return completion(reply)
        *chunks, end = events(reply)
        more = [usage_chunk(100 + self.asked)] if seen.json.get("stream_options") else []
        return sse([*chunks, *more, end])


async def create(client: Any, messages: list[dict[str, Any]] = HISTORY, **options: Any) -> Any:
    options.setdefault("tools", TOOLS)
    return await done(client.chat.completions.create(model="m", messages=messages, **options))


def joined(chunks: list[Any]) -> dict[str, Any]:
    """The message that a caller puts together of a stream."""
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    calls: dict[int, dict[str, str]] = {}
    for chunk in chunks:
        for part in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            one = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
            one["id"] += part.id or ""
            one["name"] += part.function.name or ""
            one["arguments"] += part.function.arguments or ""
    return {"content": text, "calls": list(calls.values())}
