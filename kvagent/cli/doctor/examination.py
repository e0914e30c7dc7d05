"""What is asked of a server to find out how it serves agents?

At most two chat requests of one token each, and none of a server that is busy: on a llama.cpp
without a free slot they would push a conversation out. No I/O in here: the flow yields what to
fetch.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from kvagent.backends import Condition, Fetch, Fetched, Server, Usage, condition, probe, usage_of
from kvagent.backends.openai import MODELS, is_model, listing
from kvagent.backends.wire import json_object, reason

Flow = Generator[Fetch, Fetched, "Facts"]

_NO_MODEL = "The server lists several models, or none, so nothing was sent: name one with --model."
_LEAST_WORDS = 300
_WORDS_WITHOUT_A_SIZE = 1_200  # OpenAI and others keep no prefix shorter than 1,024 tokens
_WORDS_WITHOUT_BLOCKS = 60
_WORDS = ("cache", "slot", "block", "token", "prompt", "window", "prefix", "turn")


@dataclass(frozen=True, slots=True)
class Trial:
    """The same prompt, sent twice: what the server said of each."""

    first: Usage
    second: Usage
    hits_counted: int | None
    """Cached tokens that the server's own metrics counted meanwhile; None where it has none."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was learnt."""

    server: Server
    condition: Condition
    trial: Trial | None = None
    not_tried: str = ""
    """Why nothing was sent, in a sentence."""
    refusal: str = ""
    """How the server refused a chat request that it should have answered."""
    unlisted: str = ""
    """The model that was asked for, where the server has only another one, which was examined."""


def examine(model: str | None, *, passive: bool) -> Flow:
    """Ask the server; ``passive`` asks by GET alone."""
    server = yield from probe(model)
    facts = yield from _tried(server, passive=passive)
    if model is None or server.model in (None, model):
        return facts
    # The only model was taken instead, or the one whose alias it is.
    entries = listing((yield MODELS), None).entries
    is_listed = any(is_model(entry, model) for entry in entries)
    return facts if is_listed else replace(facts, unlisted=model)


def _tried(server: Server, *, passive: bool) -> Flow:
    before = yield from condition(server)
    if passive:
        return Facts(server, before, not_tried="Nothing was sent (--passive).")
    why_not = _NO_MODEL if server.model is None else _busy(server, before)
    if why_not:
        return Facts(server, before, not_tried=why_not)
    body = _body(server)
    answers: list[Usage] = []
    for _ in range(2):
        answer = yield Fetch("/chat/completions", "api", body)
        reply = json_object(answer) if answer.status == 200 else {}
        if not reply:
            return Facts(server, before, refusal=_refusal(answer))
        answers.append(usage_of(reply))
    after = yield from condition(server)
    hits = None
    if before.hit_tokens is not None and after.hit_tokens is not None:
        hits = after.hit_tokens - before.hit_tokens
    return Facts(server, before, Trial(answers[0], answers[1], hits))


def _busy(server: Server, now: Condition) -> str:
    if now.waiting:
        return f"The server is busy ({now.waiting} requests wait), so nothing was sent."
    if server.slots and now.running is not None and now.running >= server.slots:
        return f"All {server.slots} slots are at work, so nothing was sent."
    return ""


def _body(server: Server) -> dict[str, Any]:
    """A prompt that nobody sent before, some blocks long, and well within the window."""
    words = 3 * server.block_size if server.block_size else _WORDS_WITHOUT_BLOCKS
    if server.slots is None:
        words = max(words, _LEAST_WORDS if server.block_size else _WORDS_WITHOUT_A_SIZE)
    if server.window:
        words = min(words, server.window // 4)  # a word has one token, or a few
    text = " ".join(_WORDS[at % len(_WORDS)] for at in range(words))
    message = {"role": "user", "content": f"{secrets.token_hex(8)} {text}"}
    body: dict[str, Any] = {"messages": [message], "max_tokens": 1, "temperature": 0}
    return body if server.model is None else {"model": server.model, **body}


def _refusal(answer: Fetched) -> str:
    if answer.status == 0:
        return f"A chat request got no answer: {reason(answer)}."
    if answer.status == 200:
        return f"A chat request was answered, but not with a JSON object: {reason(answer)}"
    return f"A chat request was refused ({answer.status}): {reason(answer)}"
