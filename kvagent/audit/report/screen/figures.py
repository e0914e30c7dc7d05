"""What do a session's figures come to, as recorded and through kvagent?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from kvagent.audit.figures import count, several, share, size
from kvagent.audit.report.page.words import server
from kvagent.audit.report.screen.layout import Layout, Part
from kvagent.audit.session import Session, WhatIf
from kvagent.audit.turns import Totals

_ESTIMATE = "estimate: "
# A narrower terminal has no room for what changed in per cent.
_NARROW = 60


@dataclass(frozen=True, slots=True)
class _Side:
    """One column."""

    sums: Totals
    breaks: int
    refused: int
    kv_peak: int | None

    @property
    def prefill(self) -> int:
        return self.sums.prompt_tokens - self.sums.predicted_tokens


def figures(session: Session, layout: Layout) -> list[Text]:
    """A row for each, and what they rest on."""
    what_if = session.what_if
    known = what_if if what_if is not None and what_if.after.requests else None
    sides = [_recorded(session)]
    if known is not None:
        sides.append(
            _Side(known.after, known.breaks_after, known.refused_after, known.kv_peak_after)
        )
    rows = list(_rows(session, sides))
    if known is not None:
        rows.insert(0, ["", "as recorded", "through kvagent", ""])
        if layout.width < _NARROW:
            rows = [["", "recorded", "kvagent"], *(row[:3] for row in rows[1:])]
    spare = range(len(rows[0]) - 1, 1, -1)
    lines = layout.columns(rows, indent=2, spare=spare, wraps=0)
    if known is not None:
        lines[0].stylize("dim")
    lines += layout.paragraph((f"{_counted(session)} {_predicted(session)}", "dim"), indent=2)
    if what_if is not None:
        lines += layout.paragraph((_sent(what_if), "dim"), indent=2)
    return lines


def _recorded(session: Session) -> _Side:
    rows = session.rows
    return _Side(
        session.totals,
        sum(bool(row.breaks) for row in rows),
        sum(row.predicted_tokens is None for row in rows),
        max((row.kv_bytes for row in rows if row.kv_bytes is not None), default=None),
    )


def _rows(session: Session, sides: Sequence[_Side]) -> Iterator[list[Part]]:
    exact = session.is_exact
    sums = [side.sums for side in sides]
    traced = bool(session.traced)
    yield _row("hit rate", [share(each.hit_rate, exact) for each in sums])
    if session.totals.reported_hit_rate is not None:
        reported = share(session.totals.reported_hit_rate)
        yield _row("hit rate, reported", [reported, *[""] * (len(sides) - 1)])
    prefill = [side.prefill for side in sides]
    yield _row("prefill tokens", [count(each, exact) for each in prefill], _change(prefill))
    if not traced:
        wasted = [each.wasted_tokens for each in sums]
        yield _row("wasted prefill", [count(each, exact) for each in wasted])
    longest = [each.longest for each in sums]
    yield _row("longest prompt", [count(each, exact) for each in longest], _change(longest))
    peaks = [side.kv_peak for side in sides]
    if peaks[0] is not None:
        told = [size(each, exact) for each in peaks]
        yield _row("KV cache at most", told, _change([peak or 0 for peak in peaks]))
    if not traced:
        yield _row("prefix breaks", [f"{side.breaks:,}" for side in sides])
    if any(side.refused for side in sides):
        yield _row("refused requests", [f"{side.refused:,}" for side in sides])


def _row(name: str, told: Sequence[str], change: str = "") -> list[Part]:
    figures: list[Part] = [(each, "bold") for each in told]
    return [name, *figures, *([(change, "dim")] if len(told) > 1 else [])]


def _change(values: Sequence[int]) -> str:
    """In per cent, from the first to the last; empty where there is nothing to compare."""
    if len(values) < 2 or not values[0]:
        return ""
    changed = round(100 * (values[-1] - values[0]) / values[0])
    return f"{changed:+,}%".replace("-", "−") if changed else ""


def _counted(session: Session) -> str:
    if session.traced:
        return "Tokens are the trace's own."
    if session.exact:
        return f"Tokens are the model's own ({session.counter})."
    by = session.counter.removeprefix(_ESTIMATE)
    if by == session.counter:
        return f"Tokens are partly estimates ({session.counter} did not take every prompt)."
    return f"Tokens are estimates by {by}."


def _predicted(session: Session) -> str:
    block_size = session.traced[0].request.block_size if session.traced else None
    return f"Predicted for {server(session.target, block_size)}."


def _sent(what_if: WhatIf) -> str:
    if not what_if.after.requests:
        return f"Through kvagent: no figures. {what_if.left_out}"
    stages = ", ".join(f"{name} {number:,}" for name, number in what_if.stages)
    edited = several(what_if.edited, "request") if what_if.edited else "no request"
    told = f"Through kvagent ({what_if.policy}): {edited} edited{stages and ': ' + stages}."
    return f"{told} {what_if.left_out}".strip()
