"""Where do the tokens of all prompts together come from, predicted, reported, and with kvagent?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvagent.audit.figures import count, several, share
from kvagent.audit.report.page.chart import PARTS, PREFILL, Bands, reports
from kvagent.audit.session import Row, Session
from kvagent.audit.turns import Totals


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar."""

    look: str
    name: str
    tokens: int
    x: float
    """Where it begins, as a share of the longest bar."""
    width: float
    share: str
    """Of its own bar."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A bar: all the tokens of something."""

    label: str
    said: str
    segments: list[Segment]
    exact: bool


def flows(session: Session) -> list[Flow]:
    """The bars of a session, on one scale."""
    rows, exact = session.rows, session.exact
    bars: list[tuple[str, str, list[tuple[str, str, int]], bool]] = []
    if rows:
        rate = session.totals.hit_rate
        bars.append(("predicted", f"{share(rate, exact)} hit rate", _sums(PREFILL, rows), exact))
    told = [row for row in rows if reports(row)]
    if told:
        rate = session.totals.reported_hit_rate
        bars.append(("reported", f"{share(rate)} hit rate", _reported(told), True))
    changed = session.what_if
    if changed is not None and changed.after.prompt_tokens:
        after = changed.after
        said = f"{share(after.hit_rate, after.exact)} hit rate"
        bars.append(("with kvagent", said, _totals(after), after.exact))
    longest = max((sum(tokens for *_, tokens in parts) for *_, parts, _ in bars), default=0)
    return [Flow(label, said, _segments(parts, longest), ok) for label, said, parts, ok in bars]


def longest_prompt(session: Session) -> Flow | None:
    """What the longest prompt consists of."""
    rows = session.rows
    if not rows:
        return None
    row = max(rows, key=lambda row: row.prompt_tokens)
    said = f"{count(row.prompt_tokens, row.exact)} tokens"
    segments = _segments(_sums(PARTS, [row]), row.prompt_tokens)
    turn = f"turn {row.number:,}"
    if session.conversations > 1:
        turn = f"conversation {row.conversation}, {turn}"
    return Flow(turn, said, segments, row.exact)


def traced(session: Session) -> Flow:
    """The bar of a trace without texts."""
    sums = session.totals
    said = f"{share(sums.hit_rate)} hit rate over {several(sums.requests, 'request')}"
    return Flow("predicted", said, _segments(_totals(sums), sums.prompt_tokens), exact=True)


def _sums(bands: Bands, rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    return [(look, name, sum(map(of, rows))) for look, name, of in bands]


def _reported(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    given = sum(row.reported.cached_tokens or 0 for row in rows)
    prompts = sum(row.reported.prompt_tokens or 0 for row in rows)
    return [("cached", "cached", given), ("fresh", "prefilled", max(0, prompts - given))]


def _totals(sums: Totals) -> list[tuple[str, str, int]]:
    wasted = max(0, min(sums.wasted_tokens, sums.prompt_tokens - sums.predicted_tokens))
    return [
        ("cached", "from the cache", sums.predicted_tokens),
        ("wasted", "wasted: prefilled again", wasted),
        ("fresh", "new", sums.prompt_tokens - sums.predicted_tokens - wasted),
    ]


def _segments(parts: Sequence[tuple[str, str, int]], longest: int) -> list[Segment]:
    total = sum(tokens for *_, tokens in parts)
    segments, at = [], 0
    for look, name, tokens in parts:
        if tokens > 0 and longest:
            part = share(tokens / total)
            segments.append(Segment(look, name, tokens, at / longest, tokens / longest, part))
            at += tokens
    return segments
