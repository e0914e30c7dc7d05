"""What did a server report for each request, and what was said before it was sent?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One request; counts are in tokens."""

    scenario: str
    number: int
    prompt_tokens: int
    predicted: int
    naive: int
    """What the longest prefix shared with anything before would give: an endless, exact cache."""
    reported: int
    loss: str = ""
    """Why the prediction is below ``naive``; empty where it is not."""

    @property
    def right(self) -> bool:
        """Whether the server reported what was predicted."""
        return self.predicted == self.reported


@dataclass(frozen=True, slots=True)
class Total:
    """Some rows in one line."""

    scenario: str
    requests: int
    prompt_tokens: int
    reported: int
    predicted_right: int
    naive_right: int


def totals(rows: Iterable[Row]) -> Sequence[Total]:
    """One line a scenario, in the order in which they first come."""
    scenarios: dict[str, list[Row]] = {}
    for row in rows:
        scenarios.setdefault(row.scenario, []).append(row)
    return [
        Total(
            name,
            len(group),
            sum(row.prompt_tokens for row in group),
            sum(row.reported for row in group),
            sum(row.right for row in group),
            sum(row.naive == row.reported for row in group),
        )
        for name, group in scenarios.items()
    ]
