"""What does a tired engineer want to know at a glance, and what if he asks for more?

A summary that fits one screen; with ``details`` every finding with its texts, and the turns.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from kvagent.audit.report.screen.details import detailed
from kvagent.audit.report.screen.ending import ending
from kvagent.audit.report.screen.layout import Layout
from kvagent.audit.report.screen.sessions import overview
from kvagent.audit.report.screen.summary import summary
from kvagent.audit.session import Report


def show(report: Report, console: Console, *, details: bool = False) -> None:
    """Tell a report on a terminal, in lines no wider than it.

    Args:
        report: what to tell.
        console: where.
        details: whether all of it is told.
    """
    layout = Layout(console)
    lines: list[Text] = []
    if len(report.sessions) > 1:
        lines += overview(report, layout, details=details)
    elif not details:
        lines += [each for one in report.sessions for each in summary(one, report.gates, layout)]
    if details:
        for session in report.worst_first:
            lines += [Text()] if lines else []
            lines += detailed(session, layout)
    lines += [Text(), *ending(report, layout, details=details)]
    for line in lines:
        fitted = layout.fitted(line)
        console.print(fitted, no_wrap=True, overflow="ignore", crop=False, highlight=False)
