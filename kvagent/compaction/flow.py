"""How does a narrative come about: ask, check, ask once more, else let the facts stand alone?

A generator that yields requests and is sent what was answered, so that one and the same flow runs
with and without an event loop, in the foreground and in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvagent.compaction import narrative as form
from kvagent.compaction.checks import faults
from kvagent.compaction.facts import Facts
from kvagent.compaction.record import record
from kvagent.compaction.summary import SummaryReply, reply_of

_ATTEMPTS = 2

Asked = Generator[dict[str, Any], SummaryReply | str | None, "Compacted"]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What will stand for old turns, and what it took."""

    record: str
    """Facts and narrative in one record, or the facts alone."""
    narrative: str | None
    calls: int
    """How often the model was asked."""
    refused: tuple[str, ...] = ()
    """What was wrong with the answers that were refused."""
    counts: tuple[Mapping[str, Any], ...] = ()
    """What the server counted for each answer."""


def compact(
    body: Mapping[str, Any],
    source: Sequence[Mapping[str, Any]],
    facts: Facts,
    *,
    budget: int,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    tool_choice: str | None = "none",
    known: str = "",
) -> Asked:
    """Make the record of ``source``: yields the chat requests that it needs, at most two.

    Send it each answer, or None where there was none: then the facts stand alone.

    body        the chat request as it was last sent
    facts       of ``source`` and all before it
    budget      tokens of the record
    max_tokens  the most that the model may generate
    known       what the model sees beside ``source``: for the check that it names nothing else
    """
    ledger = record(facts, None, budget=budget, count_tokens=count_tokens)
    requests = [form.last_request(body["messages"])]
    refused: list[str] = []
    counts: list[Mapping[str, Any]] = []
    wrong: list[str] = []
    for attempt in range(1, _ATTEMPTS + 1):
        answer = yield form.request(
            body, facts, max_tokens=max_tokens, tool_choice=tool_choice, retold=wrong
        )
        if answer is None:
            return Compacted(ledger, None, attempt, tuple(refused), tuple(counts))
        reply = reply_of(answer)
        counts.append(reply.counts)
        wrong = faults(
            reply, source, facts, count_tokens, ledger=ledger, requests=requests, known=known
        )
        if not wrong:
            narrative = reply.text.strip()
            text = record(facts, narrative, budget=budget, count_tokens=count_tokens)
            return Compacted(text, narrative, attempt, tuple(refused), tuple(counts))
        refused += wrong
    return Compacted(ledger, None, _ATTEMPTS, tuple(refused), tuple(counts))
