"""How does the prompt grow, what of it is cached, and when is the window full?

Counts are the server's. In between stands an estimate that learns from the server's counts how
many tokens a byte of each part (head, user, assistant, tool results) has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple
from threading import Lock
from typing import Any

from kvagent.backends import Server, Usage
from kvagent.bill import Account, Bill
from kvagent.entry import Facts
from kvagent.events import Event, Part, TurnFinished, WindowFilling
from kvagent.missed import Misses
from kvagent.pricing import Line, Timings, carry_cost

# Turns over which growth is averaged.
_GROWTHS = 8
# Weight of the newest observation; some ten turns settle an estimate.
_LEARNING = 0.3
# Until the server's counts are known: the usual share in prose and code.
_TOKENS_PER_BYTE = 0.25
_RATIOS = (0.05, 1.5)
_SCALES = (0.5, 3.0)
_PARTS: tuple[Part, ...] = ("head", "user", "assistant", "tool")


class Meter:
    """Counts of one engine; safe to use from several threads.

    ``turns``, ``prompt_tokens``, ``cached_tokens`` and ``completion_tokens`` are sums over all
    answered requests, of what the server reported.
    """

    def __init__(
        self, warn_at: Iterable[float], kv_bytes: Callable[[int], int] | None = None
    ) -> None:
        self._kv_bytes = kv_bytes
        self._warn_at = sorted(warn_at)
        self._ratio: dict[Part, float] = dict.fromkeys(_PARTS, _TOKENS_PER_BYTE)
        self._misses = Misses()
        self.account = Account()
        self._timings = Timings()
        self.scale = 1.0
        """Tokens of this server, at most, for one of the general tokenizer, which counts where it
        must be known before sending how long a prompt is."""
        self.calibrated = 0
        """How often the scale was compared with the server's counts."""
        self._mean = 1.0
        self._deviation = 0.0
        self._lock = Lock()
        self.turns = 0
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.completion_tokens = 0
        self._told_of = 0
        """Prompt tokens of the requests of which the server said how many were cached."""

    @property
    def least_scale(self) -> float:
        """Tokens of this server, at least, for one of the general tokenizer."""
        return max(self._mean - 2 * self._deviation, _SCALES[0])

    @property
    def carry_cost(self) -> float | None:
        """What a cached token costs a turn, in prefilled tokens, as far as the server's timings tell."""
        return carry_cost(self._timings)

    def bill(self) -> Bill:
        """Prefill with kvagent, its own calls included, and about what it would be without."""
        return self.account.bill()

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that the server took from its cache; None while it says none."""
        return self.cached_tokens / self._told_of if self._told_of else None

    def calibrate(self, estimated: int, counted: int) -> None:
        """Learn from a server's count of what was ``estimated`` with the scale of this moment."""
        if estimated <= 0 or counted <= 0:
            return
        low, high = _SCALES
        with self._lock:
            seen = min(max(self.scale * counted / estimated, low), high)
            if not self.calibrated:
                self._mean, self._deviation = seen, abs(seen - 1.0) / 2
            else:
                off = seen - self._mean
                self._mean += _LEARNING * off
                self._deviation += _LEARNING * (abs(off) - self._deviation)
            self.calibrated += 1
            # As for timeouts in TCP: so far above the mean that it is seldom too little.
            self.scale = min(self._mean + 2 * self._deviation, high)

    def learned(self) -> dict[str, Any]:
        """What the server's counts and timings taught, as JSON can hold it."""
        with self._lock:
            return {
                "ratio": dict(self._ratio),
                "scale": [self.scale, self._mean, self._deviation, self.calibrated],
                "prefill": astuple(self._timings.prefill),
                "decode": astuple(self._timings.decode),
            }

    def resume(self, learned: Mapping[str, Any]) -> None:
        """Go on from what ``learned()`` told in another process; errors of any kind for else."""
        ratio = {part: float(learned["ratio"][part]) for part in _PARTS}
        scale, mean, deviation, calibrated = map(float, learned["scale"])
        timings = Timings(_line(learned["prefill"]), _line(learned["decode"]))
        with self._lock:
            self._ratio.update(ratio)
            self.scale, self._mean, self._deviation = scale, mean, deviation
            self.calibrated, self._timings = int(calibrated), timings

    def tokens(self, part: Part, sent: bytes) -> int:
        """Estimated tokens of what was sent, by what the server's counts taught of its part."""
        return int(len(sent) * self._ratio[part]) + 1

    def finish(
        self,
        conversation: str,
        before: Facts | None,
        added: Mapping[Part, int],
        usage: Usage,
        ttft_s: float | None,
        window: int | None,
        again: bool,
        *,
        server: Server | None = None,
        whole: bool = False,
    ) -> tuple[Facts, list[Event]]:
        """Account for an answered turn: what is now known of it, and the events to tell.

        ``added`` are the estimated tokens of what this request added to the one ``before``;
        ``again`` marks a request that was answered already and is no turn of its own. ``whole``
        says that this prompt begins with the whole prompt ``before``, as far as it is sent.
        """
        prompt, cached, completion = (
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.completion_tokens,
        )
        grown = self._learn(before, added, prompt)
        self._time(usage)
        growths = before.growths if before else ()
        if grown is not None and before is not None and not again:
            growths = (*growths, sum(grown.values()))[-_GROWTHS:]
        mean = sum(growths) / len(growths) if growths else None
        used = None if prompt is None else prompt + (completion or 0)
        left = None
        if window and used is not None and mean is not None and mean > 0:
            left = max(0, int((window - used) // mean))
        with self._lock:
            self.turns += 1
            self.prompt_tokens += prompt or 0
            self.cached_tokens += cached or 0
            self._told_of += 0 if prompt is None or cached is None else prompt
            self.completion_tokens += completion or 0
            known = before.prompt_tokens if before is not None and whole else None
            missed = self._misses.judge(conversation, known, prompt, cached, server)
        number = (before.turn if before else 0) + (0 if again and before else 1)
        events: list[Event] = [
            TurnFinished(
                conversation=conversation,
                turn=number,
                prompt_tokens=prompt,
                cached_tokens=cached,
                prefilled_tokens=None if prompt is None or cached is None else prompt - cached,
                completion_tokens=completion,
                ttft_s=ttft_s,
                growth=grown or {},
                growth_per_turn=mean,
                window=window,
                turns_left=left,
                kv_bytes=self._kv_bytes(used) if self._kv_bytes and used is not None else None,
            )
        ]
        warned = before.warned if before else 0.0
        if missed is not None:
            events.append(missed)
        if window and used is not None:
            passed = [share for share in self._warn_at if share > warned and used >= share * window]
            for share in passed:
                warned = share
                events.append(WindowFilling(conversation, share, used, window, left))
        return Facts(number, prompt, completion, growths, warned), events

    def _time(self, usage: Usage) -> None:
        """Learn how much slower the server gets with each token that it carries."""
        prompt, cached = usage.prompt_tokens, usage.cached_tokens
        if prompt is None or cached is None or usage.prompt_ms is None:
            return
        with self._lock:
            self._timings = self._timings.with_turn(
                cached=cached,
                prefilled=prompt - cached,
                prefill_seconds=usage.prompt_ms / 1000,
                generated=usage.completion_tokens or 0 if usage.decode_ms is not None else 0,
                decode_seconds=(usage.decode_ms or 0) / 1000,
            )

    def _learn(
        self, before: Facts | None, added: Mapping[Part, int], prompt: int | None
    ) -> dict[Part, int] | None:
        """The growth by part as the server counts it; what it teaches is kept."""
        if prompt is None:
            return None
        known = 0
        if before is not None:
            if before.prompt_tokens is None:
                return None
            known = before.prompt_tokens
        total, estimated = prompt - known, sum(added.values())
        if total <= 0 or estimated <= 0:
            return None
        factor = total / estimated
        with self._lock:
            for part, tokens in added.items():
                weight = _LEARNING * tokens / estimated
                target = self._ratio[part] * factor
                self._ratio[part] += weight * (
                    min(max(target, _RATIOS[0]), _RATIOS[1]) - self._ratio[part]
                )
        grown = {part: round(tokens * factor) for part, tokens in added.items()}
        largest = max(grown, key=lambda part: grown[part])
        grown[largest] += total - sum(grown.values())
        return grown


def _line(told: Iterable[float]) -> Line:
    points, weight, x, y, xx, xy, yy = map(float, told)
    return Line(int(points), weight, x, y, xx, xy, yy)


def part_of(role: str) -> Part:
    """Which part of a prompt a role's messages belong to."""
    if role in ("system", "developer"):
        return "head"
    return "tool" if role in ("tool", "function") else "user" if role == "user" else "assistant"
