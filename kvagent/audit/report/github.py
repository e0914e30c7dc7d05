"""How does a finding stand beside the line of a pull request that it is about?

As a workflow command, which GitHub turns into an annotation. Of each kind it shows ten a step: what
was to hold and does not comes first, then the findings that are why, then the worst of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from kvagent.audit.figures import several
from kvagent.audit.names import STANDARD
from kvagent.audit.report.lines import cost, differing, one_line, place
from kvagent.audit.report.page.shown import is_exact
from kvagent.audit.report.page.visible import visible
from kvagent.audit.rule import Finding, Severity
from kvagent.audit.session import Report, Session

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}
# Annotations of a kind that GitHub shows of one step.
_SHOWN = 10
# A longer title is cut off.
_TITLE = 255


class _Annotation(NamedTuple):
    command: str
    title: str
    text: str
    file: str = ""
    line: int | None = None


def write(report: Report) -> str:
    """The workflow commands, one a line, and a last line that says how many there are."""
    room = Counter(dict.fromkeys(_COMMANDS.values(), _SHOWN))
    lines = []
    left_out = 0
    for each in _annotations(report):
        if room[each.command]:
            room[each.command] -= 1
            lines.append(_written(each))
        else:
            left_out += 1
    findings = sum(len(session.findings) for session in report.sessions)
    last = f"{several(findings, 'finding')} in {several(len(report.sessions), 'session')}"
    if left_out:
        last += f"; {several(left_out, 'annotation')} more than GitHub shows are left out"
    lines.append(last + ".")
    # A file's name may have half of a surrogate pair.
    return ("\n".join(lines) + "\n").encode(errors="replace").decode()


def _annotations(report: Report) -> Iterator[_Annotation]:
    for gate in report.gates:
        if gate.failed:
            yield _Annotation("error", f"kvagent audit: {gate.name}", gate.said, gate.file)
    for failed in report.failed:
        yield _Annotation("error", "kvagent audit: cannot be read", failed.why, failed.file)
    found = [(session, each) for session in report.worst_first for each in session.findings]
    for session, finding in sorted(found, key=lambda each: not report.failed_for(each[1])):
        yield _annotation(session, finding)


def _annotation(session: Session, finding: Finding) -> _Annotation:
    rule, spot = finding.rule, finding.spots[0]
    lines = [
        f"{finding.said} {cost(finding, exact=is_exact(session))}",
        f"At {place(spot, many=session.conversations > 1)}.",
    ]
    if spot.contrast is not None:
        texts = differing(spot.contrast)
        lines += [f"Before: {texts.before or '(nothing)'}", f"After: {texts.after or '(nothing)'}"]
    elif spot.excerpt:
        lines.append(f"Text: {one_line(spot.excerpt)}")
    lines.append(f"Fix: {finding.fix}")
    title = f"{rule.code} {rule.name}"
    line = spot.place.line or 1
    return _Annotation(_COMMANDS[rule.severity], title, "\n".join(lines), spot.place.file, line)


def _written(each: _Annotation) -> str:
    properties = []
    if each.file and each.file != STANDARD:
        properties.append(f"file={_property(each.file)}")
    if each.line is not None and properties:
        properties.append(f"line={each.line}")
    properties.append(f"title={_property(visible(each.title)[:_TITLE])}")
    return f"::{each.command} {','.join(properties)}::{_data(visible(each.text))}"


def _data(text: str) -> str:
    """A text as GitHub's runner reads it back."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
