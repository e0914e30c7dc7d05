"""What does a reviewer read below a pull request, or in the summary of a job?

A table of sessions, the worst first, and of each what is wrong with it: where, the line that
differs, what to do. No text of a prompt can leave its block, call anybody or become a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvagent.audit.figures import count, several, share, size
from kvagent.audit.names import called, placed
from kvagent.audit.report.lines import cost, differing, one_line, place
from kvagent.audit.report.page.shown import is_exact, severities, together
from kvagent.audit.report.page.visible import visible
from kvagent.audit.report.page.words import server
from kvagent.audit.rule import Contrast, Finding, Severity
from kvagent.audit.session import Report, Session, WhatIf
from kvagent.audit.turns import Totals

# GitHub takes comments of 65,536 characters.
LONGEST = 65_000
# Of this much the last lines are sure, and the table has no more.
_RESERVED, _TABLE = 1_000, 20_000

_UNREADABLE = 5
_MARKS = re.compile(r"[\\`*_{}\[\]<>|~&$!]")
# What makes a heading or a list of a line that begins with it.
_BEGINS = re.compile(r"^(\d*)([#+\-=]|(?<=\d)[.)])")
_CALLS = re.compile(r"(@|#)(?=\w)|\b(https?|www)(?=[.:])", re.IGNORECASE)
_NO_WIDTH = "\u200b"


def write(report: Report) -> str:
    """The report in GitHub's Markdown, in at most ``LONGEST`` characters."""
    kept: list[str] = []
    room = LONGEST - _RESERVED
    for block in _blocks(report):
        room -= len(block) + 2
        if room < 0:
            kept.append(
                "*The rest would make this too long; the other forms of the report have it.*"
            )
            break
        kept.append(block)
    text = "\n\n".join(kept) + "\n"
    return text.encode(errors="replace").decode()


def _blocks(report: Report) -> Iterator[str]:
    yield "## kvagent audit"
    if report.gates:
        yield "\n".join(
            f"- {'**Failed**' if gate.failed else 'Holds'}: {_text(gate.name)}"
            f"{' in ' + _code(called(gate.file)) if gate.file else ''}. {_text(gate.said)}"
            for gate in sorted(report.gates, key=lambda gate: not gate.failed)
        )
    if report.failed:
        yield "\n".join(f"- **Not read**: {_text(each.why)}" for each in report.failed)
    sessions = report.worst_first
    if sessions:
        yield _table(report)
    if report.redacted:
        yield "*Texts are replaced by stand-ins of as many tokens.*"
    told: set[str] = set()
    for session in sessions:
        if len(sessions) == 1 or session.findings or session.unreadable:
            yield from _session(session, told)


def _table(report: Report) -> str:
    lines = [
        "| Session | Requests | Prompt tokens | Hit rate | Reported | Wasted | Findings |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    sessions = report.worst_first
    room = _TABLE
    for number, session in enumerate(sessions):
        found = severities(session.findings)
        line = _row(_code(called(session.file)), session.totals, found, is_exact(session))
        room -= len(line)
        if room < 0:
            lines.append(f"| *and {len(sessions) - number:,} more* | | | | | | |")
            break
        lines.append(line)
    if len(sessions) > 1:
        every = together(report)
        lines.append(_row("**All**", every.totals, every.findings, every.exact))
    return "\n".join(lines)


def _row(name: str, sums: Totals, found: Sequence[tuple[Severity, int]], exact: bool) -> str:
    figures = [
        f"{sums.requests:,}",
        count(sums.prompt_tokens, exact),
        share(sums.hit_rate, exact),
        share(sums.reported_hit_rate),
        count(sums.wasted_tokens, exact),
        ", ".join(several(number, severity) for severity, number in found) or "none",
    ]
    return f"| {name} | {' | '.join(figures)} |"


def _session(session: Session, told_fixes: set[str]) -> Iterator[str]:
    title = session.format_title
    about = [_text(title[:1].upper() + title[1:])]
    tokens, block_size = f"estimates ({_text(session.counter.removeprefix('estimate: '))})", None
    if session.traced:
        block_size = session.traced[0].request.block_size
        tokens = "the trace's own"
    else:
        about.append(several(session.conversations, "conversation"))
        if session.exact:
            tokens = f"the model's own ({_text(session.counter)})"
    about.append(f"for {server(session.target, block_size)}")
    yield f"### {_code(called(session.file))}\n\n{', '.join(about)}. Tokens are {tokens}."
    if session.what_if is not None:
        yield _what_if(session.what_if)
    for finding in session.findings:
        yield _finding(session, finding, told_fixes)
    if session.notes:
        told = [f"- {_text(note)}" for note in session.notes]
        yield "\n".join(["What the figures leave out:", "", *told])
    if session.unreadable:
        told = [f"- {_text(placed(each.place))} {_text(each.why)}" for each in session.unreadable]
        more = session.unreadable_count - len(told[:_UNREADABLE])
        if more > 0:
            told[_UNREADABLE:] = [f"- and {more:,} more"]
        yield "\n".join(["Could not be read:", "", *told])


def _what_if(what_if: WhatIf) -> str:
    if not what_if.after.requests:
        return f"What kvagent would make of it is not known: {_text(what_if.left_out)}"
    before, after = what_if.before, what_if.after
    exact = before.exact
    rows = [
        ["", "As recorded", "Through kvagent"],
        ["---", "---:", "---:"],
        ["Hit rate", share(before.hit_rate, exact), share(after.hit_rate, exact)],
        ["Prefill, tokens", count(_prefill(before), exact), count(_prefill(after), exact)],
        ["Longest prompt, tokens", count(before.longest, exact), count(after.longest, exact)],
        ["Prefix breaks", f"{what_if.breaks_before:,}", f"{what_if.breaks_after:,}"],
    ]
    if what_if.refused_before or what_if.refused_after:
        rows.append(
            ["Refused requests", f"{what_if.refused_before:,}", f"{what_if.refused_after:,}"]
        )
    if what_if.kv_peak_before is not None:
        rows.append(
            [
                "KV cache at most",
                size(what_if.kv_peak_before, exact),
                size(what_if.kv_peak_after, exact),
            ]
        )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    said = (
        f"Saved prefill: {count(what_if.saved_tokens, exact)} tokens; "
        f"{several(what_if.edited, 'request')} edited ({_text(what_if.policy)})."
    )
    if what_if.left_out:
        said += f" {_text(what_if.left_out)}"
    return f"{table}\n\n{said}"


def _prefill(sums: Totals) -> int:
    return sums.prompt_tokens - sums.predicted_tokens


def _finding(session: Session, finding: Finding, told_fixes: set[str]) -> str:
    """A finding; what to do is told in full once for all that it helps against."""
    rule, spot = finding.rule, finding.spots[0]
    many = session.conversations > 1
    at = "" if spot.place.line is None else f"line {spot.place.line:,}, "
    if spot.place.line is None and spot.place.path:
        at = f"{spot.place.path}, "
    parts = [
        f"#### {rule.code} {rule.name} ({rule.severity})",
        f"{_text(finding.said)} {cost(finding, exact=is_exact(session))}",
        f"At {_text(at + place(spot, many=many))}",
    ]
    if spot.contrast is not None:
        parts.append(_diff(spot.contrast))
    elif spot.excerpt:
        parts.append(_fenced(one_line(spot.excerpt), "text"))
    fix = f"**Fix:** {_text(finding.fix)}"
    if finding.example:
        fix += "\n\n" + _fenced(visible(finding.example), "python")
    parts.append(f"**Fix:** as told above for {rule.code}." if fix in told_fixes else fix)
    told_fixes.add(fix)
    return "\n\n".join(parts)


def _diff(contrast: Contrast) -> str:
    texts = differing(contrast)
    lines = [
        f"- {texts.before}" if texts.before else "- (nothing)",
        f"+ {texts.after}" if texts.after else "+ (nothing)",
        f"  {' ' * texts.at}^",
    ]
    return _fenced("\n".join(lines), "diff")


def _fenced(text: str, language: str) -> str:
    """A block that nothing in the text ends."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    """A name as code, also within a table."""
    shown = one_line(text).replace("|", "¦")
    longest = max(map(len, re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    blank = " " if longest or not shown.strip() else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def _text(text: str) -> str:
    """A sentence in which no mark has a meaning, nobody is called, and nothing is a link."""
    shown = _BEGINS.sub(r"\1\\\2", _MARKS.sub(r"\\\g<0>", one_line(text).strip()))
    return _CALLS.sub(rf"\g<0>{_NO_WIDTH}", shown)
