"""Which of many sessions waste most, and what do they waste together?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from kvagent.audit.figures import count, several, share, short
from kvagent.audit.names import called, folder_of
from kvagent.audit.report.screen.layout import Layout
from kvagent.audit.report.screen.summary import counts, worst
from kvagent.audit.rule import Severity
from kvagent.audit.session import Report, Session
from kvagent.audit.turns import Totals

_ROWS, _LINES = 10, 40
_HEADER = ("", "requests", "prompt", "hit rate", "reported", "wasted", "findings")
_MARKS: dict[Severity, str] = {"error": "✗", "warning": "!", "note": "·"}
# A narrower terminal has no room for the prompts' tokens; a name has so many cells at least.
_WIDE, _NAME = 100, 10
# What else is left out where there is no room, one after the other.
_SPARE = ("reported", "requests", "findings", "wasted")


def overview(report: Report, layout: Layout, *, details: bool) -> list[Text]:
    """A table, the worst session first, and the worst rules over all of them."""
    sessions = report.worst_first
    folder = folder_of([session.file for session in sessions])
    where = f" in {folder}" if folder else ""
    lines = layout.paragraph((f"{several(len(sessions), 'session')}{where}", "bold"))
    lines += _table(sessions, folder, layout, details=details)
    lines += layout.paragraph((_counted(sessions), "dim"), indent=2)
    lines += _through(sessions, layout)
    findings = [each for session in sessions for each in session.findings]
    lines += [Text(), *counts(findings, layout)]
    room = _LINES - len(lines) - len(report.gates)
    lines += worst(sessions, layout, room, folder=folder)
    return lines


def _table(
    sessions: Sequence[Session], folder: str, layout: Layout, *, details: bool
) -> list[Text]:
    shown = sessions if details else sessions[:_ROWS]
    groups: list[tuple[str, Sequence[Session]]] = [
        (called(each.file, folder), [each]) for each in shown
    ]
    rest = sessions[len(shown) :]
    if rest:
        groups.append((f"… {len(rest):,} more", rest))
    groups.append(("all", sessions))
    rows = [_HEADER, *((name, *_cells(group)) for name, group in groups)]
    if layout.width < _WIDE:
        rows = [(*row[:2], *row[3:]) for row in rows]
    titles = rows[0][1:]
    spare = [titles.index(each) for each in _SPARE]
    room = layout.width - _NAME - 2
    others = layout.columns(
        [row[1:] for row in rows], left=(len(titles) - 1,), room=room, spare=spare
    )
    room = max(_NAME, layout.width - max(cell_len(each.plain) for each in others) - 2)
    names = layout.columns([[layout.name(row[0], room)] for row in rows])
    width = max(cell_len(each.plain) for each in names)
    lines = []
    for name, other in zip(names, others, strict=True):
        name.pad_right(width + 2 - cell_len(name.plain))
        lines.append(name.append_text(other))
    lines[0].stylize("dim")
    lines[-1].stylize("bold")
    return lines


def _cells(sessions: Sequence[Session]) -> Iterator[str]:
    sums = _together(sessions)
    yield f"{sums.requests:,}"
    yield short(sums.prompt_tokens, sums.exact)
    yield share(sums.hit_rate, sums.exact)
    yield share(sums.reported_hit_rate)
    yield short(sums.wasted_tokens, sums.exact) if sums.wasted_tokens else "0"
    found = Counter(each.rule.severity for session in sessions for each in session.findings)
    yield " ".join(f"{found[each]}{mark}" for each, mark in _MARKS.items() if found[each])


def _together(sessions: Sequence[Session]) -> Totals:
    made = Totals()
    for session in sessions:
        made.include(session.totals)
    made.exact = all(session.is_exact for session in sessions)
    return made


def _counted(sessions: Sequence[Session]) -> str:
    exact = sum(session.is_exact for session in sessions)
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
