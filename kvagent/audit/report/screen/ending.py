"""What is said below a report: which conditions hold, what was not read, and how to see more?"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kvagent.audit.figures import several
from kvagent.audit.names import called
from kvagent.audit.report.screen.groups import grouped
from kvagent.audit.report.screen.layout import Layout, Part
from kvagent.audit.session import Failed, Gate, Report

_NAMED = 3


def ending(report: Report, layout: Layout, *, details: bool) -> list[Text]:
    """The last lines."""
    told = [
        *gates(report.gates, layout, details=details),
        *not_read(report.failed, layout, details=details),
    ]
    if report.redacted:
        told += layout.paragraph(("Texts are replaced by stand-ins of as many tokens.", "dim"))
    groups = grouped(report.sessions)
    more = ["-o report.html"]
    if not details:
        more.insert(0, "--details")
    if groups:
        more.append(f"kvagent explain {groups[0].rule.code}")
    told += layout.paragraph((f"More: {' · '.join(more)}", "dim"))
    return told


def gates(gates: Sequence[Gate], layout: Layout, *, details: bool) -> list[Text]:
    """The conditions that do not hold, and how many do."""
    lines: list[Text] = []
    failed = [gate for gate in gates if gate.failed]
    held = [gate for gate in gates if not gate.failed]
    for gate in failed if details else failed[:_NAMED]:
        lines += _gate(gate, ("✗ ", "bold red"), layout)
    if len(failed) > _NAMED and not details:
        lines += layout.paragraph((f"  … and {len(failed) - _NAMED:,} more", "dim"))
    for gate in held if details or len(held) <= _NAMED else ():
        lines += _gate(gate, ("✓ ", "bold green"), layout)
    if len(held) > _NAMED and not details:
        said = f"{several(len(held), 'condition holds', 'conditions hold')}"
        lines += layout.paragraph(("✓ ", "bold green"), said)
    return lines


def _gate(gate: Gate, mark: Part, layout: Layout) -> list[Text]:
    name = f"{gate.name}, {called(gate.file)}" if gate.file else gate.name
    return layout.paragraph(mark, (name, "bold"), f": {gate.said}", hanging=2)


def not_read(failed: Sequence[Failed], layout: Layout, *, details: bool) -> list[Text]:
    """Which files could not be audited, and why."""
    lines: list[Text] = []
    for each in failed if details else failed[:_NAMED]:
        lines += layout.paragraph(("✗ ", "bold red"), each.why, hanging=2)
    if len(failed) > _NAMED and not details:
        more = several(len(failed) - _NAMED, "more file", "more files")
        lines += layout.paragraph((f"  … and {more} could not be read", "dim"))
    return lines
