"""What does a proxy write down that stands between agents and a server?

The requests of coding agents, one a line: each conversation grows by a call and its result, some of
them run at a time. The same numbers give the same bytes, on any machine.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]

_SYLLABLES = (
    *("ab", "ac", "al", "an", "ar", "at", "ba", "be", "ca", "ce", "co", "cu", "da", "de", "di", "do"),
    *("en", "er", "es", "fa", "fi", "fo", "ga", "ge", "go", "ha", "he", "id", "in", "is", "it", "ke"),
    *("la", "le", "li", "lo", "ma", "me", "mi", "mo", "na", "ne", "no", "ob", "on", "or", "pa", "pe"),
    *("po", "pro", "qu", "ra", "re", "ri", "ro", "sa", "se", "si", "so", "ste", "str", "ta", "te", "ti"),
    *("to", "tra", "tu", "un", "ur", "us", "va", "ve", "vi", "wa", "we", "wi", "xe", "ya", "ze", "zo"),
)  # fmt: skip
_TOOLS = ("read_file", "write_file", "edit_file", "search", "list_files", "run", "test", "fetch")


class _Writer:
    """Text that tokenizes about as source code and output do: some words often, most of them seldom."""

    def __init__(self, seed: int) -> None:
        self._draw = draw = random.Random(seed)
        self._words = [
            "".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4))) for _ in range(20_000)
        ]

    def word(self) -> str:
        return self._words[int(20_000 * self._draw.random() ** 4)]

    def words(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count))

    def path(self) -> str:
        return f"src/{self.word()}/{self.word()}_{self.word()}.py"

    def line(self) -> str:
        """A line of code or of what a program prints."""
        draw, word = self._draw, self.word
        match draw.randrange(5):
            case 0:
                return f"    {word()} = {word()}.{word()}({word()}, {draw.randrange(10_000)})"
            case 1:
                return f"        if {word()}_{word()} is not None:"
            case 2:
                return f"{self.path()}:{draw.randrange(2_000)}: {self.words(6)}"
            case 3:
                return f"    # {self.words(9)}"
            case _:
                return f"[{draw.randrange(60):02}:{draw.randrange(60):02}] {word().upper()} {self.words(7)}"

    def lines(self, characters: int) -> str:
        lines, size = [], 0
        while size < characters:
            lines.append(self.line())
            size += len(lines[-1]) + 1
        return "\n".join(lines)


def _tools(writer: _Writer) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": writer.words(40),
                "parameters": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": writer.words(8)},
                        "limit": {"type": "integer"},
                    },
                    "required": ["path"],
                },
            },
        }
        for name in _TOOLS
    ]


def _turn(writer: _Writer, number: int, growth: int) -> Sequence[Message]:
    function = {
        "name": _TOOLS[number % len(_TOOLS)],
        "arguments": json.dumps({"path": writer.path(), "limit": number}),
    }
    call = {"id": f"call_{writer.word()}_{number}", "type": "function", "function": function}
    return (
        {"role": "assistant", "content": writer.words(15), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": writer.lines(growth)},
    )


def requests(
    count: int, *, turns: int = 50, at_once: int = 8, growth: int = 440, seed: int = 1
) -> Iterator[dict[str, Any]]:
    """So many requests, as their bodies.

    Args:
        count: of requests.
        turns: of a conversation, until another one takes its place.
        at_once: conversations that run at a time.
        growth: characters of a tool's result.
        seed: another one gives other texts.
    """
    writer = _Writer(seed)
    tools, system = _tools(writer), {"role": "system", "content": writer.lines(4_000)}
    running: list[list[Message]] = []
    for at in range(count):
        if len(running) < at_once:
            running.append([system, {"role": "user", "content": writer.words(60)}])
        slot = at % at_once
        messages = running[slot]
        yield {"model": "m", "messages": messages, "tools": tools}
        if len(messages) >= 2 * turns:
            running[slot] = [system, {"role": "user", "content": writer.words(60)}]
        else:
            messages += _turn(writer, at, growth)


def write(path: Path, count: int, **shape: int) -> int:
    """Write them, one a line; gives the bytes."""
    with path.open("w") as file:
        for body in requests(count, **shape):
            file.write(json.dumps(body, separators=(",", ":")) + "\n")
        return file.tell()
