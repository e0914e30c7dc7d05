"""What does a tired engineer want to know of a session at a glance?"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from kvagent.audit.session import Session


def summary(session: Session) -> Iterator[RenderableType]:
    """One screen at 80 columns."""
    sums = session.totals
    rate = "unknown" if sums.hit_rate is None else f"{sums.hit_rate:.1%}"
    yield Text(f"{session.file}: {session.requests} requests, hit rate {rate}")
    for finding in session.findings:
        yield Text(
            f"{finding.rule.code} {finding.rule.name} {finding.said} ({finding.count} times)"
        )
