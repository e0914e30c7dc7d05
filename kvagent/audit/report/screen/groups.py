"""Which findings are told together where there is room for a few lines only?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.text import Text

from kvagent.audit.figures import count, several, size
from kvagent.audit.names import called
from kvagent.audit.report.lines import place
from kvagent.audit.report.page.words import line
from kvagent.audit.report.screen.layout import Layout, Part
from kvagent.audit.rule import Cost, Finding, Rule, Severity, Spot
from kvagent.audit.session import Session

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
_COSTS: dict[Cost, str] = {"prefill": "of prefill", "context": "in the prompt"}
_MARKS: dict[Severity, tuple[str, str]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "bold yellow"),
    "note": ("·", "bold cyan"),
}


@dataclass(frozen=True, slots=True)
class Found:
    """A finding and the session in which it was found."""

    session: Session
    finding: Finding


@dataclass(frozen=True, slots=True)
class Group:
    """All findings of one rule, the worst first."""

    found: Sequence[Found]

    @property
    def rule(self) -> Rule:
        """The rule."""
        return self.found[0].finding.rule

    @property
    def tokens(self) -> int:
        """What all of them cost."""
        return sum(each.finding.tokens for each in self.found)


def grouped(sessions: Iterable[Session]) -> list[Group]:
    """The worst rule first."""
    by_code: dict[str, list[Found]] = {}
    for session in sessions:
        for finding in session.findings:
            by_code.setdefault(finding.rule.code, []).append(Found(session, finding))
    groups = [
        Group(sorted(found, key=lambda each: -each.finding.tokens)) for found in by_code.values()
    ]
    return sorted(
        groups, key=lambda group: (_RANK[group.rule.severity], -group.tokens, group.rule.code)
    )


def told(group: Group, layout: Layout, *, folder: str | None) -> list[Text]:
    """A few lines on a rule: what it cost, the worst of its findings, and what to do.

    Args:
        group: its findings.
        layout: of the terminal.
        folder: of the files if there are several, with its separator; None: there is one.
    """
    worst = group.found[0]
    times = sum(each.finding.count for each in group.found)
    exact = all(each.session.is_exact for each in group.found)
    costs = cost(group.rule, times, group.tokens, exact=exact)
    sessions = len({id(each.session) for each in group.found})
    if sessions > 1:
        costs += f" · {sessions:,} sessions"
    more = len(group.found) - 1
    others = f" {several(more, 'finding')} more like it." if more else ""
    at = spot_place(worst.finding.spots[0], worst.session, folder=folder)
    return [
        *heading(group.rule, costs, layout),
        *layout.paragraph(worst.finding.said, " ", (f"{at}.{others}", "dim"), indent=2),
        *layout.paragraph(("→ ", "green"), worst.finding.fix, indent=2, hanging=4),
    ]


def heading(rule: Rule, costs: str, layout: Layout) -> list[Text]:
    """The rule's code and name, and what it cost."""
    mark, style = _MARKS[rule.severity]
    parts: list[Part] = [(f"{mark} {rule.code}", style), (f" {rule.name}", "bold")]
    return layout.paragraph(*parts, (f" · {costs}", ""), hanging=2)


def cost(rule: Rule, times: int, tokens: int, *, exact: bool, kv_bytes: int | None = None) -> str:
    """``7 times · ≈42,102 tokens of prefill``."""
    parts = ["once" if times == 1 else f"{times:,} times"]
    if rule.cost and tokens:
        parts.append(f"{count(tokens, exact)} tokens {_COSTS[rule.cost]}")
        if kv_bytes is not None:
            parts.append(f"{size(kv_bytes, exact)} of KV cache")
    return " · ".join(parts)


def spot_place(spot: Spot, session: Session, *, folder: str | None = None) -> str:
    """``Line 3, turn 2 · message 0``, with the file if need be."""
    at = "" if spot.place.line is None else f"line {line(spot.place)}, "
    at += place(spot, many=session.conversations > 1)
    if folder is not None or spot.place.file != session.file:
        return f"{called(spot.place.file, folder or '')}, {at}"
    return at[0].upper() + at[1:]
