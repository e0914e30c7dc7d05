"""Which of very many requests are shown, so that what matters is among them?"""

from __future__ import annotations

from collections.abc import Sequence

from kvagent.audit.session import Row


def sampled(rows: Sequence[Row], limit: int) -> list[Row]:
    """At most so many rows, in their order.

    All of them, if they are few. Else first those at which something happened, then of the others
    every so-manyth.
    """
    if len(rows) <= limit:
        return list(rows)
    notable = [at for at, row in enumerate(rows) if _happened(row)]
    chosen = set(_every(notable, limit))
    others = [at for at in range(len(rows)) if at not in chosen]
    chosen.update(_every(others, limit - len(chosen)))
    return [rows[at] for at in sorted(chosen)]


def _happened(row: Row) -> bool:
    return bool(row.breaks or row.error or row.wasted_tokens or row.number == 1)


def _every(places: Sequence[int], limit: int) -> list[int]:
    """At most so many of them, evenly from the first to the last."""
    if len(places) <= limit:
        return list(places)
    if limit < 2:
        return list(places[:limit])
    return [places[at * (len(places) - 1) // (limit - 1)] for at in range(limit)]
