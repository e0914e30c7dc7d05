"""How much of what agents needed again is still there when their long tool results are short?

Shortens every tool result over the budget in all recorded sessions, with kvagent and with simpler
ways, and prints the share of *at-risk* identifiers that are still visible: those that a later
message of the agent uses, that were last seen more than four messages before, and that only tool
results ever named. *Grounded* counts one only if at least half of the other words of its
neighbourhood stand beside it, so that a bare list of names does not count. Both as
``shared/measure/score.py`` defines them: *pooled* over all such uses; as the mean of those *sessions*
that have uses of what only shortened results held; and over these uses alone (*long*).

*Beside others*: kvagent is told which words the results show that stand before this one, as it is
within a conversation. The other ways: the first 70 % and the last 30 % of the budget; lines taken
at random; and head and tail with a quarter of the budget for a list of the identifiers that they
leave out.

    python benchmarks/shortening.py [--budget 4800] [--only WORD] [--json OUT] [--speed]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from recorded_sessions import SHARED, Message, meter, sessions  # noqa: E402

from kvagent.shorten import recognised, shorten, source_of, words_of  # noqa: E402

# text, budget, where the text comes from, and the words of the results that stand before it
Way = Callable[[str, int, str | None, AbstractSet[str]], str]

ROUNDS = 7  # of a measured run

_PART = re.compile(r"[^\n]{1,400}\n?|\n")


def head_and_tail(text: str, budget: int, *_: object) -> str:
    gap = "\n[…]\n"
    head = (budget - len(gap)) * 7 // 10
    return text[:head] + gap + text[len(text) - (budget - len(gap) - head) :]


def random_lines(text: str, budget: int, *_: object) -> str:
    parts = _PART.findall(text)  # a line of more than 400 characters is several
    order = list(range(len(parts)))
    random.Random(f"{budget} {text}").shuffle(order)
    kept: set[int] = set()
    for number in order:
        if len(parts[number]) <= budget:
            budget -= len(parts[number])
            kept.add(number)
    return "".join(parts[number] for number in sorted(kept))


def head_and_tail_with_footer(text: str, budget: int, *_: object) -> str:
    """A quarter of the budget for the identifiers of the rest, as they come."""
    ids = meter("score").TYPED.findall
    shown = head_and_tail(text, budget * 3 // 4)
    room = budget - len(shown) - 1
    named: dict[str, None] = {}
    for name in ids(text):
        if len(name) >= 4 and name not in named and name not in shown and len(name) < room:
            named[name] = None
            room -= len(name) + 1
    return f"{shown}\n{' '.join(named)}"


def kvagent(text: str, budget: int, source: str | None, *_: object) -> str:
    return shorten(text, budget, handle="r17ab3c", source=source).text


def kvagent_beside(text: str, budget: int, source: str | None, known: AbstractSet[str]) -> str:
    return shorten(text, budget, handle="r17ab3c", source=source, known=known).text


WAYS: dict[str, Way] = {
    "head and tail": head_and_tail,
    "random lines": random_lines,
    "and a footer": head_and_tail_with_footer,
    "kvagent": kvagent,
    "beside others": kvagent_beside,
}


SIMPLER = tuple(WAYS)[:3]


@dataclass(frozen=True, slots=True)
class Use:
    """A use of an identifier at risk: by message `at`, first seen in the results `sources`."""

    name: str
    at: int
    sources: tuple[int, ...]


@dataclass(slots=True)
class Share:
    """Of `n` uses, how many are still visible and how many grounded; `long_*` of those uses whose
    sources were all shortened."""

    n: int = 0
    at_risk: int = 0
    grounded: int = 0
    long_n: int = 0
    long_at_risk: int = 0
    long_grounded: int = 0
    lost: list[tuple[str, int, bool]] = field(default_factory=list)


class Session:
    """A recorded session, what of it is at risk, and where its long results come from."""

    def __init__(self, name: str, messages: list[Message]) -> None:
        score = meter("score")
        self.name = name
        self.texts: list[str] = [score.text_of(message) for message in messages]
        self.roles: list[str] = [message["role"] for message in messages]
        self.uses = list(self._uses(score))
        self.sources = self._sources(messages)
        # what is seen around an identifier in the messages that stay as they are
        self._around: dict[tuple[int, str], list[set[str]]] = {}

    def long(self, budget: int) -> list[int]:
        return [
            at
            for at, text in enumerate(self.texts)
            if self.roles[at] == "tool" and len(text) > budget
        ]

    def share(self, budget: int, way: Way) -> Share:
        shown = dict.fromkeys(self.long(budget), "")
        standing: set[str] = set()
        for at, text in enumerate(self.texts):
            if at in shown:
                text = way(text, budget, self.sources.get(at), standing)
                if len(text) > budget:
                    raise AssertionError(f"{way} gave {len(text)} characters, not {budget}")
                shown[at] = text
            if way is kvagent_beside and self.roles[at] == "tool":
                standing.update(words_of(text))
        share = Share()
        for use in self.uses:
            words = [around for at in use.sources for around in self._words(at, use.name)]
            visible = grounded = False
            for at in range(use.at):
                short = shown.get(at)
                if short is None:
                    found = self._words(at, use.name)
                else:
                    found = self._seen(short, use.name)
                visible = visible or bool(found)
                grounded = grounded or any(
                    not one or len(one & other) * 2 >= len(one) for one in words for other in found
                )
                if grounded:
                    break
            share.n += 1
            share.at_risk += visible
            share.grounded += grounded
            if all(at in shown for at in use.sources):
                share.long_n += 1
                share.long_at_risk += visible
                share.long_grounded += grounded
            if not grounded:
                share.lost.append((use.name, use.at, visible))
        return share

    def _words(self, at: int, name: str) -> list[set[str]]:
        found = self._around.get((at, name))
        if found is None:
            found = self._around[at, name] = self._seen(self.texts[at], name)
        return found

    def _seen(self, text: str, name: str) -> list[set[str]]:
        return meter("score").around(text, name) if name in text else []

    def _uses(self, score: Any) -> Iterator[Use]:
        ids = list(map(score.ids_of, self.texts))
        seen: dict[str, list[int]] = {}
        last = max((at for at, role in enumerate(self.roles) if role == "assistant"), default=0)
        for at, names in enumerate(ids):
            # The last reply is never part of a later request: there is nothing to compare it with.
            if self.roles[at] == "assistant" and 1 < at < last:
                for name in sorted(names & seen.keys()):
                    sources = seen[name]
                    if sources[-1] < at - score.BACK and all(
                        self.roles[source] == "tool" for source in sources
                    ):
                        yield Use(name, at, tuple(sources))
            for name in names:
                seen.setdefault(name, []).append(at)

    def _sources(self, messages: list[Message]) -> dict[int, str]:
        calls = {
            call["id"]: call["function"]
            for message in messages
            for call in message.get("tool_calls") or ()
        }
        sources: dict[int, str] = {}
        for at, message in enumerate(messages):
            function = calls.get(message.get("tool_call_id") or "")
            if function is not None:
                source = source_of(function["name"], function["arguments"])
                if source is not None:
                    sources[at] = source
        return sources


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--budget", type=int, default=4800, help="characters a result")
    parser.add_argument("--only", default="", metavar="WORD", help="sessions with this in the name")
    parser.add_argument("--json", type=Path, metavar="OUT", help="every session and way, as JSON")
    parser.add_argument("--speed", action="store_true", help="measure the speed as well")
    arguments = parser.parse_args()
    if not SHARED.is_dir():
        print(f"skipped: no recorded sessions at {SHARED}")
        return
    recorded = [Session(name, ms) for name, ms in sessions() if arguments.only in name]
    results = {
        way: {session.name: session.share(arguments.budget, run) for session in recorded}
        for way, run in WAYS.items()
    }
    console = Console()
    console.print(shown(results, recorded, arguments.budget))
    if arguments.speed:
        console.print(
            f"Speed, the least of {ROUNDS} runs for each text; for comparison, on this machine"
            f" orjson.loads and str.splitlines do {machine(recorded):.0f} MB/s of all texts:"
        )
        console.print(speed(recorded, arguments.budget))
    if arguments.json:
        plain = {
            way: {name: asdict(share) for name, share in shares.items()}
            for way, shares in results.items()
        }
        arguments.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    held = beaten(results)
    console.print(
        "kvagent is above all others" if held else "kvagent is not above all others", style="bold"
    )
    sys.exit(0 if held else 1)


def shown(results: dict[str, dict[str, Share]], recorded: list[Session], budget: int) -> Table:
    uses = sum(len(session.uses) for session in recorded)
    results_long = sum(len(session.long(budget)) for session in recorded)
    of_long = sum(share.long_n for share in results["kvagent"].values())
    table = Table(
        title=f"{len(recorded)} sessions, {results_long} results over {budget:,} characters; "
        f"n = {uses} uses, {of_long} of them of what only such results hold",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for name in ("at-risk", "grounded"):
        for scope in ("pooled", "session", "long"):
            table.add_column(f"{name}\n{scope}", justify="right", no_wrap=True)
    for way, shares in results.items():
        table.add_row(way, *(f"{value:.3f}" for value in figures(shares).values()))
    return table


def figures(shares: dict[str, Share]) -> dict[str, float]:
    """Pooled, the mean of the sessions, and pooled over what only long results hold."""
    values = shares.values()
    some = [share for share in values if share.long_n]
    result: dict[str, float] = {}
    for name in ("at_risk", "grounded"):
        result[f"{name}_pooled"] = ratio(sum(getattr(s, name) for s in values), sum_n(values))
        each = [ratio(getattr(s, name), s.n) for s in some]
        result[f"{name}_by_session"] = ratio(sum(each), len(each))
        result[f"{name}_long"] = ratio(
            sum(getattr(s, f"long_{name}") for s in values), sum(s.long_n for s in values)
        )
    return result


def sum_n(shares: Any) -> int:
    return sum(share.n for share in shares)


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def beaten(results: dict[str, dict[str, Share]]) -> bool:
    own = figures(results["kvagent"])
    others = [figures(shares) for way, shares in results.items() if way in SIMPLER]
    return all(value > max(other[name] for other in others) for name, value in own.items())


def speed(recorded: list[Session], budget: int) -> Table:
    """MB that are shortened in a second, by the type as which they were taken.

    Each text counts with the least time of `ROUNDS` runs, so that what else the machine does in
    between says little.
    """
    seconds: dict[str, list[float]] = {}
    sizes: dict[str, list[int]] = {}
    for session in recorded:
        for at, text in enumerate(session.texts):
            if session.roles[at] == "tool":
                source = session.sources.get(at)
                kind = recognised(text, budget, handle="r17ab3c", source=source)[0]
                run = partial(shorten, text, budget, handle="r17ab3c", source=source)
                seconds.setdefault(kind, []).append(least_time(run))
                sizes.setdefault(kind, []).append(len(text.encode("utf-8", "replace")))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("results", "MB", "MB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    kinds = sorted(filter(None, sizes), key=lambda kind: -sum(sizes[kind]))
    rows = {kind: [kind] for kind in kinds}
    rows |= {"all that are too long": kinds, "all results": list(sizes)}
    for name, some in rows.items():
        size = sum(sum(sizes[kind]) for kind in some) / 1e6
        time_taken = sum(sum(seconds[kind]) for kind in some)
        count = sum(len(sizes[kind]) for kind in some)
        table.add_row(name, str(count), f"{size:.2f}", f"{size / time_taken:.1f}")
    return table


def machine(recorded: list[Session]) -> float:
    """MB of the same texts that orjson reads, and Python splits into lines, in a second."""
    texts = [text for session in recorded for text in session.texts]
    data = orjson.dumps([text.encode("utf-8", "replace").decode() for text in texts])
    return len(data) / 1e6 / least_time(lambda: [text.splitlines() for text in orjson.loads(data)])


def least_time(run: Callable[[], object]) -> float:
    """Seconds of processor time, of the fastest of some runs."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


if __name__ == "__main__":
    main()
