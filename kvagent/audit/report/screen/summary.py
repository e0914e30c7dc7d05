"""What does a tired engineer want to know of one session at a glance?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.text import Text

from kvagent.audit.figures import several
from kvagent.audit.names import called
from kvagent.audit.report.screen.figures import figures
from kvagent.audit.report.screen.groups import grouped, told
from kvagent.audit.report.screen.layout import Layout, Part
from kvagent.audit.rule import Finding, Severity
from kvagent.audit.session import Gate, Session

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}
# Of a screen: rules that are told, as long as all of it has no more lines than these, and notes.
_RULES, _LINES = 5, 34
_LEAST = 3
_NOTES = 2


def summary(session: Session, gates: Sequence[Gate], layout: Layout) -> list[Text]:
    """One screen."""
    lines = [*title(session, layout), *figures(session, layout)]
    notes = [note for note in session.notes if note]
    for note in notes[:_NOTES]:
        lines += layout.paragraph(
            ("· ", "dim"), (_first_sentence(note), "dim"), indent=2, hanging=4
        )
    lines += [Text(), *counts(session.findings, layout)]
    lines += worst([session], layout, _LINES - len(lines) - len(gates))
    return lines


def title(session: Session, layout: Layout) -> list[Text]:
    """What it is."""
    calls = several(session.requests, "request")
    if session.conversations:
        calls += f" in {several(session.conversations, 'conversation')}"
    return [
        *layout.paragraph((layout.name(called(session.file), layout.width), "bold")),
        *layout.paragraph(f"{session.format_title}: {calls}"),
    ]


def counts(findings: Iterable[Finding], layout: Layout) -> list[Text]:
    """``2 errors, 1 warning``."""
    severities = Counter(finding.rule.severity for finding in findings)
    if not severities:
        return layout.paragraph(("✓ Nothing was found.", "bold green"))
    parts: list[Part] = []
    for severity, style in _STYLES.items():
        if severities[severity]:
            parts += [", "] if parts else []
            parts.append((several(severities[severity], severity), style))
    return layout.paragraph(*parts)


def worst(
    sessions: Sequence[Session], layout: Layout, room: int, *, folder: str | None = None
) -> list[Text]:
    """The worst rules, as many as there is room for, and how many there are besides."""
    groups = grouped(sessions)
    lines: list[Text] = []
    for number, group in enumerate(groups):
        more = told(group, layout, folder=folder)
        full = number >= _LEAST and (number >= _RULES or len(lines) + len(more) >= room)
        if full:
            left = sum(len(each.found) for each in groups[number:])
            codes = ", ".join(each.rule.code for each in groups[number:])
            lines += layout.paragraph(
                (f"… and {several(left, 'more finding', 'more findings')}: {codes}", "dim")
            )
            break
        lines += more
    return lines


def _first_sentence(note: str) -> str:
    head, end, _ = note.partition(". ")
    return head + "." if end else note
