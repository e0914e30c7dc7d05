"""Does the server report what was predicted for each recorded request?

Requests go out one after the other, with one token to generate; each is predicted before it is
sent. No I/O in here: the flow yields what to fetch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kvagent.backends import Fetch, Fetched, PromptError, Server, learn, usage_of
from kvagent.backends.server_tokens import tokens as ask_tokens
from kvagent.backends.simulation import Simulation
from kvagent.backends.wire import json_object, reason
from kvagent.prefixcache import Hit

Flow: TypeAlias = Generator[Fetch, Fetched, "Row"]

# A reply of one token; and no stream, whose counts would have to be asked for.
_SHORT = {"max_tokens": 1, "stream": False, "n": 1}
_LONG = frozenset(
    {
        "best_of",
        "logprobs",
        "max_completion_tokens",
        "min_tokens",  # more than are asked for: refused
        "n_predict",
        "stream_options",
        "top_logprobs",
    }
)


@dataclass(frozen=True, slots=True)
class Request:
    """A recorded request: its line, its body, and the bytes of the line."""

    line: int
    body: Mapping[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class Row:
    """One request; counts are in tokens, None where there is none."""

    line: int
    prompt_tokens: int | None
    predicted: int | None
    shared: int | None
    """What a cache without an end, exact to the token, would have given."""
    reported: int | None
    loss: str = ""
    """Why ``predicted`` is below ``shared``."""
    fault: str = ""
    """What went wrong instead."""

    silent: bool = False
    """The reply does not say how many tokens were cached."""

    @property
    def right(self) -> bool:
        """Whether prediction and report agree."""
        return not self.fault and self.predicted == self.reported

    @property
    def off(self) -> bool:
        """Whether the server counted the prompt alike, yet took another part of it from its cache."""
        return not self.fault and self.predicted != self.reported


def play(server: Server, cache: Simulation, requests: Iterable[Request]) -> Iterator[Flow]:
    """A flow for each request, to be run in this order; what is sent first gives no rows."""
    for body in cache.first():
        yield _one(server, cache, 0, body)
    for request in requests:
        yield _one(server, cache, request.line, request.body)


def _one(server: Server, cache: Simulation, line: int, recorded: Mapping[str, Any]) -> Flow:
    body = {key: value for key, value in recorded.items() if key not in _LONG} | _SHORT
    if server.model is not None:
        body["model"] = server.model
    body = dict(cache.apart(body))
    try:
        prompt = yield from ask_tokens(server, body)
    except PromptError as error:
        return Row(line, None, None, None, None, fault=error.fault)
    hit = cache.expect(prompt, body)
    answer = yield Fetch("/chat/completions", "api", body)
    return _row(server, line, len(prompt), hit, answer)


def _row(server: Server, line: int, tokens: int, hit: Hit | None, answer: Fetched) -> Row:
    reply = json_object(answer) if answer.status == 200 else {}
    if not reply:
        if hit is None and answer.status == 400:
            return Row(line, tokens, None, None, None, loss="too long")
        return Row(line, tokens, None, None, None, fault=_fault(answer))
    usage = usage_of(reply)
    if hit is None:
        fault = "answered, although it was predicted to be too long"
        return Row(line, tokens, None, None, usage.cached_tokens, fault=fault)
    if usage.prompt_tokens != tokens:
        fault = f"the server counts {usage.prompt_tokens} prompt tokens"
    else:
        fault = ""
    reported, silent = usage.cached_tokens, False
    if reported is None:
        silent = learn(server, reply, hit_due=hit.cached_tokens > 0).reports_cached is False
        reported = None if silent else 0  # older servers leave out the count of a miss
    shown = hit.cached_tokens, hit.shared_tokens, reported
    return Row(line, tokens, *shown, loss=hit.loss, fault=fault, silent=silent)


def _fault(answer: Fetched) -> str:
    if answer.status == 0:
        return f"no answer: {reason(answer)}"
    if answer.status == 200:
        return f"answered, but not with a JSON object: {reason(answer)}"
    return f"refused ({answer.status}): {reason(answer)}"
