"""Which requests and settings would nobody think of?

Drawn at random from a seed: conversations that share heads, grow, fork, go back, are edited in the
middle, resent or pinned to a slot, on servers with any settings.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from tests.prediction.llamacpp import Setup
from tests.prediction.sessions import TOOLS, Body, Message, body, text
from tests.tiny_model import GEMMA3, LLAMA, MAMBA

EOS = 2
"""SmolLM2's <|im_end|>."""


def setup(draw: random.Random) -> Setup:
    """A server's settings; windows are small, so that prompts do not fit now and then."""
    slots = draw.choice([1, 2, 2, 3, 4])
    unified = draw.random() < 0.5
    return Setup(
        slots=slots,
        unified=unified,
        n_ctx=draw.choice([1536, 2048, 4096]) * (1 if unified else slots),
        host_mib=draw.choice([-1, 0, 1, 2, 3, 4, 6, 10, 8192]),
        similarity=draw.choice([0.0, 0.1, 0.1, 0.1, 0.3, 0.5, 0.9]),
        kv_type=draw.choice(["f16", "f16", "q8_0", "f32"]),
        n_batch=draw.choice([2048, 2048, 512, 300]),
        n_ubatch=draw.choice([512, 512, 128, 64]),
        idle_slots=draw.random() < 0.8,
        shape=LLAMA,
    )


def rolling_setup(draw: random.Random) -> Setup:
    """The same with a sliding-window or a recurrent model, where checkpoints decide."""
    return replace(
        setup(draw),
        kv_type="f16",
        shape=draw.choice([GEMMA3, GEMMA3, MAMBA]),
        checkpoints=draw.choice([32, 32, 0, 1, 2, 3, 5]),
        checkpoint_min_step=draw.choice([8192, 8192, 0, 100, 300]),
        swa_full=draw.random() < 0.15,
        plain_text=draw.random() < 0.2,
    )


def requests(
    draw: random.Random, count: int, *, moves: bool = False
) -> Generator[Body, Message, None]:
    """``count`` requests; the messages sent in are the replies. ``moves`` lets some use ``n_cache_reuse``."""
    heads = [text(draw.choice([3, 60, 200, 500]), ("head", draw.random())) for _ in range(3)]
    conversations: list[list[Message]] = []
    for _ in range(count):
        history = _conversation(draw, heads, conversations)
        if history[-1]["role"] == "assistant":
            history.append({"role": "user", "content": _text(draw)})
        reply = yield body(history, tools=_tools(draw, history), **_options(draw, moves))
        if draw.random() < 0.8:
            history.append(reply)


def _tools(draw: random.Random, history: list[Message]) -> Any:
    """The head decides, now and then somebody else."""
    by_head = len(history[0]["content"]) % 2 == 0
    return TOOLS if by_head != (draw.random() < 0.05) else None


def _conversation(
    draw: random.Random, heads: list[str], conversations: list[list[Message]]
) -> list[Message]:
    """One that goes on from here: a new one, or an old one after something has happened to it."""
    if not conversations or draw.random() < 0.12:
        history: list[Message] = [{"role": "system", "content": draw.choice(heads)}]
        conversations.append(history)
    else:
        history = draw.choice(conversations[-4:] if draw.random() < 0.7 else conversations)
    what = draw.random()
    if what < 0.1 and len(history) > 1:
        return history  # resent
    if what < 0.2 and len(history) > 2:
        target = draw.randrange(0 if draw.random() < 0.2 else 1, len(history))
        history[target] = {**history[target], "content": _text(draw)}
        return history
    if what < 0.3:
        history = copy.copy(history[: draw.randint(1, len(history))])
        conversations.append(history)
    elif what < 0.38:
        del history[draw.randint(1, len(history)) :]
    elif what < 0.43:
        del history[1 : draw.randint(1, len(history))]  # what a trimming agent does
    if what > 0.85:
        name = draw.choice(["read_file", "search"])
        function = {"name": name, "arguments": '{"path": "a.py"}'}
        call = {"id": "call_1", "type": "function", "function": function}
        history.append({"role": "assistant", "content": "", "tool_calls": [call]})
        history.append({"role": "tool", "tool_call_id": "call_1", "content": _text(draw)})
    else:
        history.append({"role": "user", "content": _text(draw)})
    return history


def _text(draw: random.Random) -> str:
    return text(int(draw.choice([1, 5, 20, 60, 150, 400]) * (0.5 + draw.random())), draw.random())


def _options(draw: random.Random, moves: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"max_tokens": draw.choice([1, 1, 2, 5, 16, 40])}
    if draw.random() < 0.3:
        options["temperature"] = 1
    if draw.random() < 0.25:
        options["logit_bias"] = [[EOS, draw.choice([5, 100])]]
    if draw.random() < 0.1:
        options["id_slot"] = draw.choice([-1, 0, 0, 1, 2, 5])
    if draw.random() < 0.05:
        options["cache_prompt"] = False
    if moves and draw.random() < 0.15:
        options["n_cache_reuse"] = draw.choice([1, 16, 100])
    return options
