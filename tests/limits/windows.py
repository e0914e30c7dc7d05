"""Which server has a window, and which prompt is too long for it?"""

from __future__ import annotations

from typing import Any

from tests.scripted import Served, refused, tokens_of
from tests.wire import Message, call, result, say

GOOD = say("assistant", "There.")
TURNS = 24


def text(seed: int, lines: int = 24) -> str:
    """A tool's result of some 400 tokens."""
    return "\n".join(
        f"src/part_{seed}/file_{n}.py:{n * 7919 % 977}: value_{seed}_{n} = {n * seed * 31337 % 99991}"
        for n in range(lines)
    )


def history(turns: int = TURNS, lines: int = 24) -> list[Message]:
    messages = [say("system", "You help."), say("user", "Look through all parts.")]
    for turn in range(turns):
        name = f"call-{turn}"
        messages += [call(name, "read", {"path": f"part_{turn}"}), result(name, text(turn, lines))]
    return messages


HISTORY = history()
SIZE = tokens_of({"messages": HISTORY})


class Window:
    """A server with a window: it refuses longer prompts in the words of llama.cpp."""

    def __init__(self, window: int, scale: float = 1.0) -> None:
        self.window = window
        self.scale = scale
        self.refusals = 0

    def __call__(self, body: dict[str, Any]) -> Served:
        prompt = int(tokens_of(body) * self.scale)
        if prompt >= self.window:
            self.refusals += 1
            return refused(
                f"request ({prompt} tokens) exceeds the available context size ({self.window} "
                "tokens), try increasing it"
            )
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 3})
