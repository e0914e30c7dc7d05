"""Is a front that a server cuts off in silence noticed, and nothing else taken for one?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent import Overflowed
from tests.limits.windows import GOOD, HISTORY, history, text
from tests.scripted import Scripted, Served, tokens_of
from tests.wire import Message, call, result, say


def cutting(window: int, scale: float = 1.0) -> Any:
    """A server that takes the end of a prompt that is too long."""

    def answer(body: dict[str, Any]) -> Served:
        prompt = min(int(tokens_of(body) * scale), window)
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 3})

    return answer


def grown(scripted: Scripted, server: Any, turns: int, lines: int = 24) -> None:
    """An agent's conversation, one result after the other."""
    messages = history(0)
    for turn in range(turns):
        name = f"call-{turn}"
        messages += [call(name, "read", {"path": f"part_{turn}"}), result(name, text(turn, lines))]
        scripted.send(messages, server)
        messages = [*messages, GOOD, say("user", "Go on.")]


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.4])
def test_a_front_that_is_cut_off_is_noticed(scale: float) -> None:
    scripted = Scripted(window=1_000_000)
    grown(scripted, cutting(4_096, scale), 40)
    first, *more = scripted.of(Overflowed)
    assert (first.silent, first.status, first.window) == (True, 200, 4_096)
    assert first.prompt_tokens is not None
    assert first.prompt_tokens > 4_096
    assert not more, "from then on prompts fit"
    assert max(map(tokens_of, scripted.bodies[-8:])) * scale <= 4_096


def test_a_front_cut_off_from_the_first_request_on() -> None:
    scripted = Scripted(window=1_000_000)
    scripted.send(HISTORY, cutting(2_048))
    (told,) = scripted.of(Overflowed)
    assert told.silent


@pytest.mark.parametrize("scale", [0.6, 0.8, 1.0, 1.5, 2.5])
def test_whoever_counts_otherwise_is_not_suspected(scale: float) -> None:
    scripted = Scripted()
    grown(scripted, cutting(10**9, scale), 20)
    assert not scripted.of(Overflowed)


def test_old_reasoning_that_a_template_drops_is_no_cut() -> None:
    """Nearly all of a prompt may be reasoning, and gone with the next question of the user."""
    scripted = Scripted()

    def server(body: dict[str, Any]) -> Served:
        last = max(n for n, m in enumerate(body["messages"]) if m["role"] == "user")
        prompt = tokens_of(body) + sum(
            len(m.get("reasoning_content") or "") // 4 for m in body["messages"][last:]
        )
        return Served(GOOD, {"prompt_tokens": prompt, "completion_tokens": 500})

    messages = [say("system", text(0)), say("user", "Think.")]
    for turn in range(12):
        name = f"call-{turn}"
        thought = {"reasoning_content": text(turn, 120)}
        messages += [{**call(name), **thought}, result(name, text(turn, 10))]
        scripted.send(messages, server)
    scripted.send([*messages, {**GOOD}, say("user", "Thanks. And now?")], server)
    assert not scripted.of(Overflowed)


def test_pictures_are_no_cut() -> None:
    """Their bytes are many, their tokens few."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}}
    messages: list[Message] = []
    scripted = Scripted()
    for turn in range(1, 14):
        messages += [say("user", [{"type": "text", "text": "What is this?"}, picture])]
        scripted.send(messages, Served(GOOD, {"prompt_tokens": 300 * turn}))
        messages += [GOOD]
    assert not scripted.of(Overflowed)


def test_tools_that_a_template_leaves_out_are_no_cut() -> None:
    parameters = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(200)}}
    tools = [
        {"type": "function", "function": {"name": f"t{n}", "parameters": parameters}}
        for n in range(10)
    ]
    scripted = Scripted()
    messages = [say("system", text(0, 90)), say("user", "Hello.")]
    prompt = tokens_of({"messages": messages})
    scripted.send(messages, Served(GOOD, {"prompt_tokens": prompt}), tools=tools)
    assert not scripted.of(Overflowed)
