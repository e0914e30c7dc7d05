"""What did the server report for each turn, in a table, a chart and a file?"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvagent.cli.demo.agent import Turn

MAX_BAR = 48
"""Characters of the longest bar. Wider shows no more."""

LEGEND = "TTFT: seconds to the first token, * the median"


def floor_tokens(turns: Sequence[Turn]) -> int:
    """The least that a run with these turns can make the server prefill.

    Every token of the last prompt must be computed once, except those that the server generated itself.
    """
    return turns[-1].prompt_tokens - sum(turn.completion_tokens for turn in turns[:-1])


def totals(turns: Sequence[Turn]) -> dict[str, Any]:
    """One run's sums in tokens, and its median time to the first token in seconds."""
    return {
        "turns": len(turns),
        "prompt_tokens": sum(turn.prompt_tokens for turn in turns),
        "cached_tokens": sum(turn.cached_tokens for turn in turns),
        "prefilled_tokens": sum(turn.prefilled_tokens for turn in turns),
        "ttft_s_median": round(statistics.median(turn.ttft_s for turn in turns), 3),
    }


def as_json(runs: Mapping[str, Sequence[Turn]]) -> dict[str, Any]:
    """``{"raw": {…}, "kvagent": {…}, "floor_tokens": N}``: the runs that were made, and the floor of the last one."""
    last = list(runs.values())[-1]
    return {
        **{name: totals(turns) for name, turns in runs.items()},
        "floor_tokens": floor_tokens(last),
    }


def render(runs: Mapping[str, Sequence[Turn]], console: Console) -> RenderableType:
    """The table, the chart and what they come to, for a console of 80 columns or more."""
    return Group(_table(runs), LEGEND, "", _chart(runs, console), "", _summary(runs))


def _table(runs: Mapping[str, Sequence[Turn]]) -> Table:
    table = Table(
        title="Tokens of each turn, as the server reports them",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=0,
        show_footer=True,
    )
    some = next(iter(runs.values()))
    table.add_column("turn", justify="right", footer="all")
    table.add_column("then", footer="")
    for name, turns in runs.items():
        sums = totals(turns)
        for index, (head, footer, style) in enumerate(
            (
                ("prompt", f"{sums['prompt_tokens']:,}", None),
                ("cached", f"{sums['cached_tokens']:,}", "green"),
                ("prefilled", f"{sums['prefilled_tokens']:,}", "bold red"),
                ("TTFT", f"{_seconds(sums['ttft_s_median'])}*", None),
            )
        ):
            group = name if index == 0 else ""
            table.add_column(
                f"{group}\n{head}", justify="right", footer=footer, style=style, no_wrap=True
            )
    for number, turn in enumerate(some, 1):
        cells = [cell for turns in runs.values() for cell in _cells(turns[number - 1])]
        table.add_row(str(number), turn.label, *cells)
    return table


def _cells(turn: Turn) -> tuple[str, str, str, str]:
    return (
        f"{turn.prompt_tokens:,}",
        f"{turn.cached_tokens:,}",
        f"{turn.prefilled_tokens:,}",
        _seconds(turn.ttft_s),
    )


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.1f}"


def _chart(runs: Mapping[str, Sequence[Turn]], console: Console) -> Table:
    width = min(MAX_BAR, (console.width - 6) // len(runs) - 2)
    longest = max(turn.prompt_tokens for turns in runs.values() for turn in turns)
    cached, prefilled = ("-", "#") if console.options.ascii_only else ("░", "█")
    chart = Table(
        title=Text.assemble(
            "Each prompt: ", (cached, "green"), " cached ", (prefilled, "red"), " prefilled"
        ),
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
    )
    chart.add_column("", justify="right")
    for name in runs:
        chart.add_column(name, width=width, no_wrap=True)
    for number, row in enumerate(zip(*runs.values(), strict=True), 1):
        bars: list[Text] = []
        for turn in row:
            full = round(width * turn.prompt_tokens / longest)
            # Some tokens are always prefilled, so at least one character says so.
            cold = max(0, min(full - 1, int(width * turn.cached_tokens / longest)))
            bars.append(Text.assemble((cached * cold, "green"), (prefilled * (full - cold), "red")))
        chart.add_row(str(number), *bars)
    return chart


def _summary(runs: Mapping[str, Sequence[Turn]]) -> Text:
    text = Text()
    for name, turns in runs.items():
        sums = totals(turns)
        hit = sums["cached_tokens"] / sums["prompt_tokens"]
        text.append(f"{name:<8}", "bold")
        text.append(
            f"{sums['prefilled_tokens']:>7,} of {sums['prompt_tokens']:,} prompt tokens prefilled,"
            f" {hit:.0%} from the cache\n"
        )
    name, turns = list(runs.items())[-1]
    cost, floor = totals(turns)["prefilled_tokens"], floor_tokens(turns)
    if len(runs) > 1:
        raw = totals(next(iter(runs.values())))["prefilled_tokens"]
        text.append(f"{'saved':<8}", "bold")
        text.append(f"{raw - cost:>7,} tokens of prefill, {1 - cost / raw:.0%} of it\n")
    text.append(f"{'floor':<8}", "bold")
    text.append(f"{floor:>7,} is the least possible; {name} took {cost / floor:.3f} times that")
    return text
