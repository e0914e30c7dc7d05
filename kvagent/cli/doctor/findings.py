"""What is wrong with a server that is to serve agents, and what mends it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvagent.backends import Fault, Server, remedy
from kvagent.cli.doctor.examination import Facts

_MANY = 100_000  # prompt tokens, before a hit rate says something
_LOW = 0.3


@dataclass(frozen=True, slots=True)
class Needs:
    """What the agents want: tokens of one conversation, and how many conversations at once."""

    context: int
    agents: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: a stable code, what was seen, and the flag or request field that mends it."""

    code: str
    seen: str
    remedy: str


def findings(facts: Facts, needs: Needs) -> Iterator[Finding]:
    """Every fault, the costliest first."""
    if facts.unlisted:
        yield Finding(
            "model-unlisted",
            f"The server has no model {facts.unlisted}, only {facts.server.model}, which was "
            "examined instead.",
            f"Ask for it by its name: --model {facts.server.model}.",
        )
    if facts.refusal:
        yield Finding("chat-refused", facts.refusal, "See the server's log for more.")
    yield from _cache(facts)
    yield from _room(facts.server, needs)
    yield from _memory(facts, needs)


def notes(facts: Facts) -> Iterator[str]:
    """What is no fault, and yet worth knowing."""
    if facts.not_tried:
        yield facts.not_tried
    closed = remedy(facts.server, "metrics_closed")
    if closed is not None and facts.condition.asked_tokens is None:
        yield f"The server tells no metrics, so its hit rate is not known. {closed}"


def _cache(facts: Facts) -> Iterator[Finding]:
    server = facts.server
    if _caching(facts) is False:
        seen = (
            "The same prompt, sent twice, was computed twice."
            if facts.trial
            else "The server says that prefix caching is off."
        )
        yield _finding(server, "caching_off", seen, "Switch prefix caching on.")
    silent = facts.trial is not None and facts.trial.second.cached_tokens is None
    if silent or server.reports_cached is False:
        yield _finding(
            server,
            "cached_not_reported",
            "Replies do not say how many prompt tokens came from the cache.",
            "Have the server report prompt_tokens_details.cached_tokens.",
        )


def _caching(facts: Facts) -> bool | None:
    """Whether prefixes are kept: as the trial proved, else as the server says."""
    if facts.trial is not None:
        for count in (facts.trial.second.cached_tokens, facts.trial.hits_counted):
            if count is not None:
                return count > 0
    return facts.condition.caching


def _room(server: Server, needs: Needs) -> Iterator[Finding]:
    if server.window is not None and server.window < needs.context:
        yield _finding(
            server,
            "window_small",
            f"A conversation may have {server.window:,} tokens; {needs.context:,} are wanted "
            "(--context).",
            "Start the server with a longer context.",
        )
    if server.slots is not None and server.slots < needs.agents:
        slots = "one slot" if server.slots == 1 else f"{server.slots} slots"
        yield _finding(
            server,
            "slots_few",
            f"{needs.agents} agents (--agents) share {slots}: each pushes another's prompt out.",
            "Give every agent a slot.",
        )


def _memory(facts: Facts, needs: Needs) -> Iterator[Finding]:
    server, now = facts.server, facts.condition
    if now.kv_tokens is not None and now.kv_tokens < needs.agents * needs.context:
        yield _finding(
            server,
            "pool_small",
            f"The KV cache holds {now.kv_tokens:,} tokens; {needs.agents} x {needs.context:,} are "
            "wanted (--agents, --context): prompts are evicted between turns.",
            "Give the KV cache more memory.",
        )
    if server.block_size and server.window and 2 * server.block_size > server.window:
        yield _finding(
            server,
            "block_large",
            f"Prefixes are kept in blocks of {server.block_size:,} tokens, and a window has "
            f"{server.window:,}: hardly a prompt fills one.",
            "Make the blocks smaller.",
        )
    if now.asked_tokens and now.hit_tokens is not None and now.asked_tokens >= _MANY:
        rate = now.hit_tokens / now.asked_tokens
        if rate < _LOW:
            yield Finding(
                "hit-rate-low",
                f"Of {now.asked_tokens:,} prompt tokens so far {rate:.0%} came from the cache.",
                "Wrap the agents' clients (kvagent.wrap), and see what breaks their prefixes: "
                "kvagent rewrite REQUESTS.jsonl -o OUT.jsonl --events -",
            )


def _finding(server: Server, fault: Fault, seen: str, otherwise: str) -> Finding:
    return Finding(fault.replace("_", "-"), seen, remedy(server, fault) or otherwise)
