"""What do agents send, request by request?

A session is a generator: it yields chat request bodies and is sent the assistant message that the
server answered, which most of them append to their history. Texts are made from a seed, so the
same session can be had again.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import orjson

Body = dict[str, Any]
Message = dict[str, Any]
Session = Generator[Body, Message, None]

_WORDS = str.split(
    "block cache slot token prefix prompt agent tool result error file line test build fails with of "
    "the a in to server memory turn reads writes value of request 7 42 1024 0x1f main.py README :: -> é"
)

TOOLS: Sequence[Mapping[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} in the repository.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
                "required": ["path"],
            },
        },
    }
    for name in ("read_file", "search", "run_tests")
]


def text(words: int, seed: object) -> str:
    """``words`` words, the same for the same seed."""
    draw = random.Random(repr(seed))
    return " ".join(draw.choices(_WORDS, k=words))


def growing(
    seed: object,
    turns: int = 4,
    *,
    head: int = 80,
    question: int = 25,
    max_tokens: int = 8,
    head_seed: object = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    **options: Any,
) -> Session:
    """A conversation of ``turns`` turns with the server's own replies in it.

    ``head`` and ``question`` are in words; sessions with one ``head_seed`` share their system text.
    """
    system = text(head, ("head", seed if head_seed is None else head_seed))
    history: list[Message] = [{"role": "system", "content": system}]
    for turn in range(turns):
        history.append({"role": "user", "content": text(question, (seed, turn))})
        reply = yield body(history, max_tokens=max_tokens, tools=tools, **options)
        history.append(reply)


def with_tool_calls(
    seed: object, turns: int = 4, *, head: int = 80, result: int = 60, **options: Any
) -> Session:
    """One question and a loop of tool calls and results, written by hand: no model of this size makes any."""
    history: list[Message] = [
        {"role": "system", "content": text(head, ("head", seed))},
        {"role": "user", "content": text(20, seed)},
    ]
    for turn in range(turns):
        yield body(history, tools=TOOLS, **options)
        arguments = orjson.dumps({"path": f"src/{turn}.py", "lines": turn}).decode()
        call = {"name": "read_file", "arguments": arguments}
        history.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}],
            }
        )
        history.append(
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": text(result, (seed, turn))}
        )


def resent(seed: object, times: int = 3, *, words: int = 100, **options: Any) -> Session:
    """One request again and again."""
    for _ in range(times):
        yield body([{"role": "user", "content": text(words, seed)}], **options)


def edited(
    seed: object, turns: int = 4, *, at: Iterable[int] = (1,), head: int = 80, question: int = 40
) -> Session:
    """A conversation that first grows; then, for each number in ``at``, that user message is another text."""
    history: list[Message] = [{"role": "system", "content": text(head, ("head", seed))}]
    users: list[int] = []
    for turn in range(turns):
        users.append(len(history))
        history.append({"role": "user", "content": text(question, (seed, turn))})
        history.append((yield body(history)))
    for number, target in enumerate(at):
        changed = dict(history[users[target]], content=text(question, (seed, "edit", number)))
        history[users[target]] = changed
        yield body([*history, {"role": "user", "content": text(question, (seed, "on", number))}])


def recorded(path: Path) -> Session:
    """The requests of a file, a line each, whatever the server answers; one token is asked for."""
    for line in path.read_bytes().splitlines():
        request = orjson.loads(line)
        yield {**request, "max_tokens": 1, "temperature": 0}


def body(
    history: Sequence[Message], *, max_tokens: int = 1, tools: Any = None, **options: Any
) -> Body:
    """A chat request; the history is copied, since a session goes on writing in its own."""
    request: Body = {
        "model": "m",
        "messages": list(history),
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    if tools is not None:
        request["tools"] = tools
    return {**request, **options}


def in_turn(*sessions: Session) -> Iterator[Session]:
    """Whose turn it is: each session in order, round after round. Ended ones are to be passed over."""
    for _ in count():
        yield from sessions
