"""Why does the report differ from the prediction?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvagent.audit.conversations import Placed
from kvagent.audit.prediction import Target
from kvagent.audit.recent import Recent

Reason = Literal[
    "agrees",
    "answer",
    "earlier",
    "idle",
    "minimum",
    "never_reported",
    "lost",
    "otherwise",
    "failed",
]
"""``agrees``: within a block, or within the error of an estimate. More was cached than predicted:
``answer``: the answer before this request was cached as it was generated; ``earlier``: it is a
conversation's first request, and the cache had its head from before the log; ``otherwise``: for
no reason that the log shows. Less was cached: ``failed``: the request got an error;
``never_reported``: nothing was ever reported as cached in this log; ``minimum``: makers cache no prompt
of less than about a thousand tokens; ``idle``: the time since the last request was longer than
caches are kept; ``lost``: it was not in the cache any more, or the request went to another replica.
"""

SENTENCES: dict[Reason, str] = {
    "agrees": "as predicted",
    "answer": "the answer before it was cached, too",
    "earlier": "the cache had its beginning from before the log",
    "idle": "the cache was not kept for so long",
    "minimum": "so short a prompt is not cached by most makers",
    "never_reported": "no request reports cached tokens: caching is off or not told",
    "lost": "it was not in the cache any more, or another replica served it",
    "otherwise": "the log does not show why",
    "failed": "the request failed",
}

# Makers cache in steps of 128 tokens or less, and nothing below 1,024.
_STEP = 128
_MINIMUM = 1_024
# Anthropic keeps five minutes, OpenAI five to ten.
_KEPT_S = 300.0
# How far an estimate is off where it is the best that there is.
_ERROR = 0.08


@dataclass(frozen=True, slots=True)
class Gap:
    """A report beside its prediction, both in the report's tokens."""

    reported_tokens: int
    expected_tokens: int
    """The prediction. Where the prompt's tokens are not those that the maker counted, it is scaled
    to them; where the transcript lacks a part of the head, that part counts as cached from the
    second request on."""
    reason: Reason
    """The likely one."""

    @property
    def tokens(self) -> int:
        """How many more were cached than predicted; below 0: fewer."""
        return self.reported_tokens - self.expected_tokens


@dataclass(slots=True)
class _Last:
    answer: int
    time_s: float | None


class Reporting:
    """Compares reports with predictions, one request after the other."""

    def __init__(self, target: Target) -> None:
        self._step = max(_STEP, target.block_size)
        self._last: Recent[int, _Last] = Recent(50_000)
        self._any_cached = False

    def gap(self, placed: Placed, tokens: int, predicted: int | None, *, exact: bool) -> Gap | None:
        """The gap of a request with so many prompt tokens; None where nothing is reported."""
        request = placed.request
        last = None if placed.left is None else self._last.get(placed.left)
        counts = request.reported
        self._last.put(placed.branch, _Last(counts.completion_tokens or 0, request.time_s))
        cached = counts.cached_tokens
        if cached is None or predicted is None:
            return None
        self._any_cached = self._any_cached or cached > 0
        prompt = counts.prompt_tokens
        expected = predicted
        if prompt is not None and prompt != tokens and tokens:
            if placed.snapshot.head and len(request.complete) == 2:
                expected = predicted * prompt // tokens
            elif last is not None:
                expected = max(0, min(prompt, predicted + prompt - tokens))
        within = self._step if exact and prompt == tokens else self._step + int(expected * _ERROR)
        return Gap(cached, expected, self._reason(placed, cached - expected, within, cached, last))

    def _reason(
        self, placed: Placed, more: int, within: int, cached: int, last: _Last | None
    ) -> Reason:
        request = placed.request
        if abs(more) <= within:
            return "agrees"
        if more > 0:
            if last is None:
                return "earlier"
            return "answer" if more <= last.answer + within else "otherwise"
        if request.error is not None:
            return "failed"
        if not self._any_cached:
            return "never_reported"
        if not cached and (request.reported.prompt_tokens or _MINIMUM) < _MINIMUM:
            return "minimum"
        if last is not None and last.time_s is not None and request.time_s is not None:
            if request.time_s - last.time_s > _KEPT_S:
                return "idle"
        return "lost"
