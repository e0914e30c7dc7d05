"""What tells a simulator of vLLM's cache from a wrong one?

Growing sessions alone do not. Here are full pools with sessions in turn, prompts and answers that end at the edge
of a block, the same prompt again, tenants, edits, and what templates do to a history.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.prediction.rows import Row
from tests.prediction.sessions import (
    TOOLS,
    Body,
    Message,
    Session,
    body,
    edited,
    growing,
    recorded,
    resent,
    text,
    with_tool_calls,
)
from tests.prediction.vllm import VLLM, WINDOWS, Player, Setup

Scenario = Callable[[], Iterable[Session]]

EOS = 3
"""<|im_end|> of the test's models."""
ANSWER = ord("A")
"""What is generated where the request says which token that may be."""
SERVERS: Mapping[str, Setup] = {
    "129 × 128": Setup(block_size=128, blocks=129),
    "180 × 128": Setup(block_size=128, blocks=180),
    "600 × 32": Setup(block_size=32, blocks=600, adapters=("a", "b")),
    "300 × 128, sliding window": Setup("gemma", block_size=128, blocks=300),
}

STRIPS_THINKING = """\
{%- set last = namespace(user=0) -%}
{%- for message in messages if message.role == 'user' -%}
{%- set last.user = loop.index -%}
{%- endfor -%}
{%- set seen = namespace(user=0) -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}{%- set seen.user = seen.user + 1 -%}{%- endif -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.reasoning and seen.user == last.user -%}
{{- '<think>\\n' + message.reasoning + '\\n</think>\\n' -}}
{%- endif -%}
{{- message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
"""Reasoning stays in the prompt until the next user message, as with Qwen3."""


_LETTERS = range(ord("a"), ord("z") + 1)


def ids(count: int, seed: object) -> list[int]:
    """Token ids, the same for the same seed; they are few, so that recordings can write them as letters."""
    return random.Random(repr(seed)).choices(_LETTERS, k=count)


def tokens(prompt: Sequence[int], generate: int = 1, **options: Any) -> Body:
    """A request of token ids that is answered by so many tokens."""
    return {
        "model": "m",
        "prompt": list(prompt),
        "max_tokens": generate,
        "ignore_eos": True,
        "allowed_token_ids": [ANSWER],
        "temperature": 0,
        **options,
    }


def stopped(prompt: Sequence[int], generate: int, **options: Any) -> Body:
    """The same, where the last token is one that ends the answer."""
    request = tokens(prompt, generate + 5, **options)
    return {
        **request,
        "min_tokens": generate - 1,
        "ignore_eos": False,
        "allowed_token_ids": [ANSWER, EOS],
        "logit_bias": {str(EOS): 100},
    }


def of_lengths(seed: object, lengths: Iterable[int], **options: Any) -> Session:
    """One conversation of token ids whose prompts are exactly so long; each one is sent twice."""
    history: list[int] = []
    for number, length in enumerate(lengths):
        history = [*history, *ids(length, (seed, number))][:length]
        yield tokens(history, **options)
        reply = yield tokens(history, **options)
        history += reply["tokens"]


def ending_at(seed: object, edges: Iterable[int], *, block_size: int) -> Session:
    """Answers that end so many tokens behind the edge of a block, by a token and by their length."""
    history = ids(block_size // 2, seed)
    for number, edge in enumerate(edges):
        for request in (stopped, tokens):
            missing = (edge - len(history)) % block_size or block_size
            reply = yield request(history, missing)
            history += reply["tokens"]
            history += ids(1, (seed, number))


def salted(seed: object, salts: Iterable[str | None], length: int) -> Session:
    """One prompt for several tenants."""
    for salt in salts:
        options: dict[str, Any] = {} if salt is None else {"cache_salt": salt}
        yield tokens(ids(length, seed), **options)


def adapted(seed: object, adapters: Iterable[str], length: int) -> Session:
    """One prompt for the model and its adapters, twice each, some with a tenant."""
    for _ in range(2):
        for name in ("m", *adapters):
            yield {**tokens(ids(length, seed)), "model": name}
            yield tokens(ids(length, seed), cache_salt="a") | {"model": name}


def asking_for_logprobs(seed: object, length: int) -> Session:
    """The cache is filled by all, and read by those that do not ask for the prompt's logprobs."""
    prompt = ids(length, seed)
    for options in ({}, {"prompt_logprobs": 1}, {}, {"prompt_logprobs": 1}):
        yield tokens(prompt, **options)
    yield tokens([*prompt, *ids(length, (seed, 1))], prompt_logprobs=0)
    yield tokens([*prompt, *ids(length, (seed, 1)), 5])


def too_long(seed: object, window: int) -> Session:
    """At the window, just below it, and above it."""
    prompt = ids(window + 100, seed)
    for length in (window - 1, window, window + 100, window - 1, window - 2):
        yield tokens(prompt[:length])


def sub_agents(seed: object, count: int, **options: Any) -> Session:
    """One short conversation after the other."""
    for number in range(count):
        yield from growing((seed, number), 2, **options)


def thinking(seed: object, turns: int, template: str) -> Session:
    """A conversation with reasoning in its replies, and tool results within a turn."""
    history: list[Message] = [{"role": "system", "content": text(60, ("head", seed))}]
    for turn in range(turns):
        history.append({"role": "user", "content": text(40, (seed, turn))})
        for step in range(3):
            yield body(history, chat_template=template)
            thought = text(30, (seed, turn, step, "thought"))
            answer = text(20, (seed, turn, step))
            history.append({"role": "assistant", "content": answer, "reasoning": thought})
            if step < 2:
                history.append(
                    {"role": "tool", "tool_call_id": "call_1", "content": text(20, step)}
                )


def strangers(
    seed: object, requests: int, block_size: int, longest: int, step: int | None = None
) -> Session:
    """Drawn at random: histories of token ids that grow, fork, go back, are cut, resent or stopped.

    They grow by ``step`` tokens at most, or a sixth of the longest.
    """
    draw = random.Random(repr(seed))
    head = ids(draw.randint(1, 6 * block_size), draw.random())
    histories: list[list[int]] = [[]]
    for _ in range(requests):
        history = draw.choice(histories)
        what = draw.random()
        if what < 0.2:
            history = list(head)
            histories.append(history)
        elif what < 0.3:
            history = history[: draw.randint(0, len(history))]
            histories.append(history)
        elif what < 0.4:
            del history[draw.randint(0, len(history)) :]
        if what < 0.9 or not history:
            more = [
                1,
                block_size - 1,
                block_size,
                block_size + 1,
                draw.randint(1, step or longest // 6),
            ]
            history += ids(draw.choice(more), draw.random())
        if draw.random() < 0.3:
            del history[max(block_size, len(history) // block_size * block_size) :]
        del history[longest:]
        request = draw.choice([stopped, tokens])
        generate = draw.choice(
            [1, 1, 2, block_size - 1, block_size, draw.randint(1, 2 * block_size)]
        )
        reply = yield request(history, generate)
        if draw.random() < 0.8:
            history += reply["tokens"]


CASES = ("requests", "requests_keyorder", "requests_clean")
"""Recorded sequences with faults, in the folder that is not part of the repository."""


def of_case(shared: Path, name: str) -> Iterable[Session]:
    """One of them."""
    return [recorded(shared / "cases" / f"{name}.jsonl")]


def room_of(setup: Setup) -> int:
    """Tokens that the server can surely keep."""
    return setup.block_size * min(setup.blocks or 300, 600) // len(WINDOWS[setup.model])


def scenarios(setup: Setup) -> Mapping[str, Scenario]:
    """For a server with these settings."""
    size = setup.block_size
    room = room_of(setup)
    longest = min(room // 2, setup.max_model_len - 3 * size)
    words = room // 60  # some 2.5 % of what the server can keep, as tokens

    def edges(*offsets: int) -> list[int]:
        return [k * size + offset for k in (1, 2, 3, 5, 8) for offset in offsets]

    def together(count: int, share: float) -> Scenario:
        """So many sessions in turn, which grow to ``share`` of the pool each."""
        question = int(words * share * 5)
        return lambda: [
            growing(("together", count, n), 6, head=question * 2, question=question, max_tokens=20)
            for n in range(count)
        ]

    def beside(question: int) -> Scenario:
        """A main session, and sub-agents with its head and tools."""
        options: dict[str, Any] = {"head": words, "head_seed": "main", "tools": TOOLS}
        return lambda: [
            growing("main", 8, question=question, **options),
            sub_agents("sub", 4, question=words, **options),
        ]

    return {
        "growing": lambda: [growing("one", 10, question=60)],
        "tools in the template": lambda: [
            with_tool_calls("calls", 6),
            growing("t", 4, tools=TOOLS),
        ],
        "resent": lambda: [resent("again", 3), resent("again 2", 3, words=2 * words)],
        "lengths": lambda: [of_lengths("lengths", edges(-1, 0, 1))],
        "lengths, two tokens": lambda: [of_lengths("two", edges(-1, 0, 1), generate=2)],
        "ends at the edge": lambda: [ending_at("ends", (-2, -1, 0, 1, 2), block_size=size)],
        "tenants": lambda: [salted("salt", ("a", "a", "b", None, None, "b", "a"), 3 * size)],
        "adapters": lambda: [adapted("lora", setup.adapters, 3 * size)],
        "logprobs": lambda: [asking_for_logprobs("logprobs", 3 * size)],
        "edited": lambda: [edited("edit", 6, at=(1, 4, 0, 2, 2), question=words)],
        "two in turn": together(2, 0.55),
        "four in turn": together(4, 0.3),
        "five in turn": together(5, 0.25),
        "five in turn, small": together(5, 0.1),
        "beside a short session": beside(words // 4),
        "beside a long session": beside(words * 3),
        "thinking stripped": lambda: [thinking("think", 4, STRIPS_THINKING)],
        "strangers": lambda: [strangers(1, 30, size, longest // 2)],
        "strangers, long": lambda: [
            strangers((n, "long"), 15, size, longest, room // 3) for n in range(2)
        ],
        "too long": lambda: [too_long("long", setup.max_model_len)],
    }


def at_once(setup: Setup, share: float, count: int = 4) -> Iterable[Session]:
    """Sessions for as many threads, some with a common head; together they fill that share of the pool."""
    room = room_of(setup)
    words = int(room * share / 80)
    return [
        growing(("at once", n), 10, head=words, question=words, max_tokens=12, head_seed=n % 3)
        for n in range(count)
    ]


def play_all(python: Path, shared: Path | None = None) -> Iterator[Row]:
    """Every scenario on every server, one request after the other; a scenario is named with its server.

    ``python`` is that of the environment with vLLM, ``shared`` the folder with the recorded faults.
    """
    for server_name, setup in SERVERS.items():
        found = dict(scenarios(setup))
        if shared:
            found |= {name: partial(of_case, shared, name) for name in CASES}
        with VLLM(setup, python) as server:
            player = Player(server, setup)
            for name, play in found.items():
                yield from player.play(f"{server_name}: {name}", play())
