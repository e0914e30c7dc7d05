"""What does a tired engineer want to know of a session at a glance?"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from kvagent.audit.session import Report, Session


def summary(session: Session) -> Iterator[RenderableType]:
    """One screen at 80 columns."""
    sums = session.totals
    rate = "unknown" if sums.hit_rate is None else f"{sums.hit_rate:.1%}"
    yield Text(f"{session.file}: {session.requests} requests, hit rate {rate}")
    for finding in session.findings:
        yield Text(
            f"{finding.rule.code} {finding.rule.name} {finding.said} ({finding.count} times)"
        )


def show(report: Report, console: Console, *, details: bool = False) -> None:
    """Tell a report on a terminal."""
    for session in report.sessions:
        for part in summary(session):
            console.print(part)
    for gate in report.gates:
        console.print(Text(f"{'failed' if gate.failed else 'holds'}: {gate.name}: {gate.said}"))
