"""What is drawn over the turns of a conversation, and over the requests of a trace?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvagent.audit.figures import count, share, short
from kvagent.audit.report.page.columns import Columns, Scale, scale, ticks
from kvagent.audit.report.page.timeline import broken
from kvagent.audit.session import Row
from kvagent.audit.turns import Traced

# Columns for the requests of a trace.
_COLUMNS = 240


@dataclass(frozen=True, slots=True)
class Series:
    """One colour of the columns."""

    look: str
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked columns, one a turn."""

    title: str
    said: str
    """What it shows, for who cannot see it."""
    columns: Columns
    series: list[Series]
    scale: Scale
    ticks: list[tuple[float, str]]
    """Where along the axis, from 0 to 1, and which turn."""
    titles: list[str]
    """What is said of each column."""
    breaks: list[int]
    """The columns at which the prefix broke."""


Bands = Sequence[tuple[str, str, Callable[[Row], int]]]
# Of each series: how it looks, how it is called, and its tokens.

PARTS: Bands = (
    ("head", "head", lambda row: row.parts.head),
    ("user", "user", lambda row: row.parts.user),
    ("assistant", "assistant", lambda row: row.parts.assistant),
    ("tool", "tool results", lambda row: row.parts.tool),
)


def cached(row: Row) -> int:
    """Tokens from the cache."""
    return row.predicted_tokens or 0


def lost(row: Row) -> int:
    """Tokens that were computed before and that the server's cache does not give back."""
    return row.reusable_tokens - cached(row) if row.predicted_tokens is not None else 0


def wasted(row: Row) -> int:
    """Tokens that are prefilled once more because they stand behind a difference."""
    if row.predicted_tokens is None:
        return 0
    return max(0, min(row.wasted_tokens, row.prompt_tokens - row.reusable_tokens))


def fresh(row: Row) -> int:
    """Tokens that were never sent before."""
    if row.predicted_tokens is None:
        return 0
    return max(0, row.prompt_tokens - cached(row) - lost(row) - wasted(row))


def refused(row: Row) -> int:
    """Tokens of a prompt that is longer than the window."""
    return row.prompt_tokens if row.predicted_tokens is None else 0


PREFILL: Bands = (
    ("cached", "from the cache", cached),
    ("lost", "rounding and eviction", lost),
    ("wasted", "wasted: prefilled again", wasted),
    ("fresh", "new", fresh),
    ("refused", "refused: longer than the window", refused),
)

REPORTED: Bands = (
    ("cached", "reported as cached", lambda row: row.reported.cached_tokens or 0),
    (
        "fresh",
        "reported as prefilled",
        lambda row: max(0, (row.reported.prompt_tokens or 0) - (row.reported.cached_tokens or 0)),
    ),
)


def reports(row: Row) -> bool:
    """Whether the transcript says how much of the prompt was cached."""
    return row.reported.prompt_tokens is not None and row.reported.cached_tokens is not None


def charts(rows: Sequence[Row]) -> list[Chart]:
    """The charts of a conversation, all on one scale so that they can be compared."""
    largest = max(row.prompt_tokens for row in rows)
    reported = any(map(reports, rows))
    if reported:
        largest = max(largest, *(row.reported.prompt_tokens or 0 for row in rows))
    axis = scale(largest)
    made = [
        _chart("Prompt by part", PARTS, rows, axis, _parts_said),
        _chart("Prefill, predicted", PREFILL, rows, axis, _prefill_said),
    ]
    if reported:
        made.append(_chart("Prefill, as reported", REPORTED, rows, axis, _reported_said))
    return made


def _chart(
    title: str, bands: Bands, rows: Sequence[Row], axis: Scale, said: Callable[[Row], str]
) -> Chart:
    columns = Columns(len(rows))
    numbers = [row.number for row in rows]
    values = [[of(row) for row in rows] for _, _, of in bands]
    paths = columns.paths(values, axis.top)
    series = [
        Series(look, name, path) for (look, name, _), path in zip(bands, paths, strict=True) if path
    ]
    last, peak = rows[-1], max(rows, key=lambda row: row.prompt_tokens)
    return Chart(
        title,
        f"{title}: turns {rows[0].number} to {last.number}, the longest prompt has "
        f"{count(peak.prompt_tokens, peak.exact)} tokens (turn {peak.number}).",
        columns,
        series,
        axis,
        [(columns.middle(at), f"{number:,}") for at, number in ticks(numbers)],
        [said(row) for row in rows],
        [at for at, row in enumerate(rows) if row.breaks],
    )


def _parts_said(row: Row) -> str:
    parts = ", ".join(f"{name} {of(row):,}" for _, name, of in PARTS if of(row))
    return f"turn {row.number}: {count(row.prompt_tokens, row.exact)} tokens; {parts}"


def _prefill_said(row: Row) -> str:
    said = [f"turn {row.number}: {count(row.prompt_tokens, row.exact)} tokens"]
    said += [f"{name} {of(row):,}" for _, name, of in PREFILL if of(row)]
    said += map(broken, row.breaks)
    return "; ".join(said)


def _reported_said(row: Row) -> str:
    if not reports(row):
        return f"turn {row.number}: nothing is reported"
    tokens, given = row.reported.prompt_tokens or 0, row.reported.cached_tokens or 0
    rate = f" ({share(given / tokens)})" if tokens else ""
    return f"turn {row.number}: {tokens:,} tokens, {given:,} reported as cached{rate}"


def trace(requests: Sequence[Traced]) -> Chart:
    """The requests of a trace; of very many, the mean of some is one column."""
    together = -(-len(requests) // _COLUMNS)
    groups = [requests[at : at + together] for at in range(0, len(requests), together)]
    means = [
        (
            sum(each.predicted_tokens or 0 for each in group) // len(group),
            sum(each.prompt_tokens for each in group) // len(group),
        )
        for group in groups
    ]
    axis = scale(max(prompt for _, prompt in means))
    columns = Columns(len(groups))
    values = [[hit for hit, _ in means], [prompt - hit for hit, prompt in means]]
    paths = columns.paths(values, axis.top)
    names = (("cached", "from the cache"), ("fresh", "prefilled"))
    series = [
        Series(look, name, path) for (look, name), path in zip(names, paths, strict=True) if path
    ]
    title = "Prefill, predicted" + (f"; means of {together} requests" if together > 1 else "")
    firsts = list(range(1, len(requests) + 1, together))
    titles = [
        f"request{'s' if together > 1 else ''} {_numbers(at * together, len(group))}: "
        f"{short(prompt)} tokens, {short(hit)} from the cache"
        for at, (group, (hit, prompt)) in enumerate(zip(groups, means, strict=True))
    ]
    return Chart(
        title,
        f"{title}: {len(requests):,} requests.",
        columns,
        series,
        axis,
        [(columns.middle(at), f"{number:,}") for at, number in ticks(firsts)],
        titles,
        [],
    )


def _numbers(first: int, many: int) -> str:
    return f"{first + 1:,}" if many == 1 else f"{first + 1:,}–{first + many:,}"
