"""Did the server report less from its cache than it must have had?

The log's own counts stand against the prediction here: the prompts are as they were, and the maker
says that it took less from its cache than they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvagent.audit.figures import several
from kvagent.audit.recent import Recent
from kvagent.audit.reported import Gap
from kvagent.audit.rule import Rule, Sighting, Spot
from kvagent.audit.rules.places import spot_of
from kvagent.audit.turns import Turn

# So many requests, and so many tokens that should have come from the cache, until a log without any
# reported cached token says something.
_REQUESTS = 3
_TOKENS = 4_096
_BRANCHES = 50_000

IDLE = Rule(
    "KVA405",
    "idle",
    "warning",
    "prefill",
    "After a pause, the server has lost what it had cached.",
    "Anthropic keeps a cached prefix for five minutes after its last use (an hour where that is "
    "asked for and paid), OpenAI for five to ten minutes. One's own vLLM or llama.cpp forgets "
    "nothing by the clock, but what other requests need the room for. An agent that waits longer, "
    "for a person, a build or a long tool, finds the cache cold and prefills its whole history.",
    "Ask the maker for a longer life where pauses are usual, edit the history just then (it costs "
    "nothing while the cache is cold), or send a request of one token before the time is over.",
    "# Anthropic: an hour in place of five minutes\n"
    '{"cache_control": {"type": "ephemeral", "ttl": "1h"}}\n'
    "# OpenAI: up to a day\n"
    'client.responses.create(..., prompt_cache_retention="24h")',
)

NOTHING_CACHED = Rule(
    "KVA406",
    "nothing-reported-cached",
    "warning",
    "prefill",
    "The server reports for every request that nothing came from its cache.",
    "Prompts with long common beginnings were sent one after the other, and each report says 0 "
    "cached tokens. Either caching is off: vLLM with --no-enable-prefix-caching, Anthropic without "
    "cache_control in the request, a gateway that spreads a conversation over replicas, a prompt "
    "that something on the way changes. Or it is on and not told: vLLM says the count only with "
    "--enable-prompt-tokens-details, and some clients and gateways write 0 where the server said "
    "nothing.",
    "Turn caching on and look whether the counts move; if they stay at 0, compare the prompts that "
    "reach the server.",
    "vllm serve MODEL --enable-prefix-caching --enable-prompt-tokens-details\n"
    "# Anthropic: mark where the stable beginning ends\n"
    '{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}',
)

CACHE_LOST = Rule(
    "KVA407",
    "cache-lost",
    "warning",
    "prefill",
    "The server reports far fewer cached tokens than the request before left in its cache.",
    "By the transcript the prompt only grew, there was no long pause, and still the server had "
    "little or nothing of it. Its cache made room for others, it was restarted, another replica "
    "served the request, or the prompts that it got were not those of the transcript: a session "
    "file shows the messages, not what the agent added to each request (reminders, dates, changed "
    "results). Where the same count comes back each time, it is the head that was found, and the "
    "history behind it was not what was sent before.",
    "Record the requests themselves and audit those: if they only grow, the loss is the server's "
    "(more room for its cache, the same replica for a conversation); else its cause is found there.",
    "# a key of the conversation's own brings it to the machine that has its cache (OpenAI)\n"
    'client.chat.completions.create(..., prompt_cache_key="conversation-4711")',
)

BELOW_MINIMUM = Rule(
    "KVA409",
    "below-minimum",
    "note",
    "prefill",
    "Prompts are shorter than what the maker caches at all.",
    "OpenAI caches prompts of 1,024 tokens and more, Anthropic of 1,024 to 4,096 by model. A "
    "shorter one is always prefilled whole. One's own vLLM or llama.cpp has no such minimum beside "
    "vLLM's block.",
    "Nothing, unless there are very many such requests: then what they have in common may be "
    "worth enough tools and examples in front to pass the minimum.",
)

RULES = (IDLE, NOTHING_CACHED, CACHE_LOST, BELOW_MINIMUM)


class Reports:
    """Looks at reports that fall short of the prediction."""

    def __init__(self) -> None:
        self._requests = self._expected = 0
        self._any_cached = False
        self._first: Spot | None = None
        self._failed: Recent[int, bool] = Recent(_BRANCHES)

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """What the report of a turn falls short of."""
        placed, gap = turn.placed, turn.gap
        # What a request left in the cache that failed, nobody knows.
        unknown = placed.left is not None and self._failed.get(placed.left)
        failed = placed.request.error is not None
        if failed or unknown:
            self._failed.put(placed.branch, failed)
        return () if gap is None or unknown else self._short(turn, gap)

    def _short(self, turn: Turn, gap: Gap) -> Iterable[Sighting]:
        self._requests += 1
        self._any_cached = self._any_cached or gap.reported_tokens > 0
        if gap.reason == "never_reported":
            self._expected += gap.expected_tokens
            self._first = self._first or spot_of(turn)
        spot = spot_of(turn, tokens=-gap.tokens)
        if gap.reason == "idle":
            said = "After a pause of more than five minutes the cache was cold."
            yield Sighting(IDLE, None, spot, said, everywhere=True)
        elif gap.reason == "lost":
            said = "The server found far less of these prompts than it had been sent just before"
            said += ", or it got others than this transcript shows." if _is_rebuilt(turn) else "."
            yield Sighting(CACHE_LOST, None, spot, said, everywhere=True)
        elif gap.reason == "minimum":
            said = "These prompts are shorter than what the maker caches at all."
            yield Sighting(BELOW_MINIMUM, None, spot, said, everywhere=True)

    def end(self) -> Iterable[Sighting]:
        """Whether nothing was ever cached."""
        first = self._first
        if first is None or self._any_cached or self._requests < _REQUESTS:
            return
        if self._expected >= _TOKENS:
            spot = Spot(first.place, first.conversation, first.turn, tokens=self._expected)
            said = (
                f"All {several(self._requests, 'request')} that report it say 0 cached tokens, "
                f"and about {self._expected:,} could have come from a cache."
            )
            yield Sighting(NOTHING_CACHED, None, spot, said, everywhere=True)


def _is_rebuilt(turn: Turn) -> bool:
    """Whether nobody knows what the server really got."""
    return turn.request.unrolled or len(turn.request.complete) < 2
