"""Which of many sessions waste most, and what do they waste together?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from kvagent.audit.report.page.figures import count, several, share, short
from kvagent.audit.report.screen.layout import Layout, Part
from kvagent.audit.report.screen.summary import counts, worst
from kvagent.audit.rule import Finding, Severity
from kvagent.audit.session import Report, Session
from kvagent.audit.turns import Totals

_ROWS, _LINES = 12, 36
_HEADER = ("", "requests", "prompt", "hit rate", "reported", "wasted", "findings")
_MARKS: dict[Severity, str] = {"error": "✗", "warning": "!", "note": "·"}
# Cells that a row takes besides its name.
_BESIDE = 58


def overview(report: Report, layout: Layout, *, details: bool) -> list[Text]:
    """A table, the worst session first, and the worst rules over all of them."""
    sessions = report.worst_first
    folder = _folder([session.file for session in sessions])
    where = f" in {folder}" if folder else ""
    lines = layout.paragraph((f"{several(len(sessions), 'session')}{where}", "bold"))
    lines += _table(sessions, folder, layout, details=details)
    lines += layout.paragraph((_counted(sessions), "dim"), indent=2)
    lines += _through(sessions, layout)
    findings = [each for session in sessions for each in session.findings]
    lines += [Text(), counts(findings, layout)]
    lines += worst(sessions, layout, _LINES - len(lines) - len(report.gates))
    return lines


def _folder(files: Sequence[str]) -> str:
    """The folder that all of them are in, with its separator; empty where there is none."""
    try:
        common = os.path.commonpath([str(Path(file).parent) for file in files])
    except ValueError:  # relative and absolute ones
        return ""
    return "" if common in ("", os.curdir, os.sep) else common + os.sep


def _table(
    sessions: Sequence[Session], folder: str, layout: Layout, *, details: bool
) -> list[Text]:
    shown = sessions if details else sessions[:_ROWS]
    room = max(12, layout.width - _BESIDE)
    rows: list[list[Part]] = [[(title, "dim") for title in _HEADER]]
    for session in shown:
        name = layout.name(session.file.removeprefix(folder), room)
        rows.append([name, *_cells(session.totals, session.findings)])
    rest = sessions[len(shown) :]
    if rest:
        findings = [each for session in rest for each in session.findings]
        cells = _cells(_together(rest), findings)
        rows.append([(layout.letters(f"… {len(rest):,} more"), "dim"), *cells])
    if len(sessions) > 1:
        findings = [each for session in sessions for each in session.findings]
        cells = _cells(_together(sessions), findings)
        rows.append(
            [(each if isinstance(each, str) else each[0], "bold") for each in ("all", *cells)]
        )
    return layout.columns(rows, left=(0, len(_HEADER) - 1), indent=2)


def _cells(sums: Totals, findings: Sequence[Finding]) -> Iterator[Part]:
    yield f"{sums.requests:,}"
    yield short(sums.prompt_tokens, sums.exact)
    yield share(sums.hit_rate, sums.exact)
    yield share(sums.reported_hit_rate)
    yield short(sums.wasted_tokens, sums.exact) if sums.wasted_tokens else "0"
    found = Counter(finding.rule.severity for finding in findings)
    yield " ".join(f"{found[each]}{mark}" for each, mark in _MARKS.items() if found[each])


def _together(sessions: Sequence[Session]) -> Totals:
    made = Totals()
    for session in sessions:
        sums = session.totals
        made.requests += sums.requests
        made.prompt_tokens += sums.prompt_tokens
        made.predicted_tokens += sums.predicted_tokens
        made.wasted_tokens += sums.wasted_tokens
        made.reported_prompt_tokens += sums.reported_prompt_tokens
        made.reported_cached_tokens += sums.reported_cached_tokens
        made.exact = made.exact and sums.exact
    return made


def _counted(sessions: Sequence[Session]) -> str:
    exact = sum(session.exact for session in sessions)
    if exact == len(sessions):
        return "Tokens are the models' own."
    if not exact:
        return "Tokens are estimates; --tokenizer gives a model's own."
    return f"Tokens of {several(len(sessions) - exact, 'session')} are estimates (≈)."


def _through(sessions: Sequence[Session], layout: Layout) -> list[Text]:
    """The sums of what-if, over the sessions that have it."""
    known = [each.what_if for each in sessions if each.what_if and each.what_if.after.requests]
    if not known:
        return []
    exact = all(each.after.exact for each in known)
    sides = [[each.before for each in known], [each.after for each in known]]
    prompts = [sum(each.prompt_tokens for each in side) for side in sides]
    cached = [sum(each.predicted_tokens for each in side) for side in sides]
    prefill = [prompt - hit for prompt, hit in zip(prompts, cached, strict=True)]
    longest = [max(each.longest for each in side) for side in sides]
    rates = [
        share(hit / prompt if prompt else None, exact)
        for prompt, hit in zip(prompts, cached, strict=True)
    ]
    breaks = sum(each.breaks_before for each in known), sum(each.breaks_after for each in known)
    covered = "" if len(known) == len(sessions) else f" ({several(len(known), 'session')})"
    told = [
        f"prefill {count(prefill[0], exact)} → {count(prefill[1], exact)} tokens",
        f"hit rate {rates[0]} → {rates[1]}",
        f"longest prompt {count(longest[0], exact)} → {count(longest[1], exact)}",
        f"prefix breaks {breaks[0]:,} → {breaks[1]:,}",
    ]
    return layout.paragraph(("Through kvagent", "bold"), f"{covered}: {', '.join(told)}.", indent=2)
