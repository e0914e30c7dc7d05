"""What may a log of requests hold? Random conversations, interleaved at random."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from kvagent.audit.transcript import Place, Reported, Request

Message = dict[str, Any]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"To {name} a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("read", "write")
]
SYSTEM: Message = {"role": "system", "content": "You are an agent who reads files."}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def reply(text: str) -> Message:
    return {"role": "assistant", "content": text}


def call(name: str, at: str, arguments: str = '{"path": "a.py"}') -> Message:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": at, "type": "function", "function": function}],
    }


def result(text: str, at: str) -> Message:
    return {"role": "tool", "tool_call_id": at, "content": text}


def request(
    messages: Sequence[Message],
    line: int = 1,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    replies: Sequence[Message] = (),
    conversation: str | None = None,
    **more: Any,
) -> Request:
    return Request(
        Place("log.jsonl", line),
        list(messages),
        tools,
        replies=replies,
        conversation=conversation,
        **more,
    )


def session(name: str, turns: int, seed: int) -> list[list[Message]]:
    """The prompts of a session of an agent that calls tools, the shortest first."""
    chance = random.Random(f"{name}{seed}")
    messages = [SYSTEM, user(f"Please do task {name}, which is number {seed}.")]
    prompts = [list(messages)]
    for turn in range(turns):
        at = f"call_{name}_{turn}"
        if chance.random() < 0.7:
            path = f'{{"path": "{name}/{turn}.py"}}'
            messages.append(call(chance.choice(("read", "write")), at, path))
            messages.append(result(f"{name} {turn}: " + "line\n" * chance.randrange(9), at))
        else:
            messages.append(reply(f"I have done step {turn} of {name}."))
            messages.append(user(chance.choice(("go on", "yes", f"and now {turn}?"))))
        prompts.append(list(messages))
    return prompts


@st.composite
def interleaved(draw: st.DrawFn) -> list[tuple[int, list[Message]]]:
    """Prompts of several sessions, each with its session's number; each session in its order."""
    count = draw(st.integers(1, 5))
    seed = draw(st.integers(0, 99))
    left = [session("abcde"[n], draw(st.integers(0, 7)), seed) for n in range(count)]
    mixed = []
    while any(left):
        number = draw(st.sampled_from([n for n, prompts in enumerate(left) if prompts]))
        mixed.append((number, left[number].pop(0)))
    return mixed


REPORTED = Reported(100, 64, 10)
