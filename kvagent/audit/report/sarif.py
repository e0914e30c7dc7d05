"""How do findings get into a list of a code host, which follows them from one run to the next?

As SARIF 2.1.0: each rule with its help, each finding once, at the first place where it was seen; the
others are related places. A finding keeps its fingerprint when lines are added to the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from kvagent.audit.report.lines import cost, differing, one_line, place
from kvagent.audit.report.page.shown import is_exact
from kvagent.audit.rule import Finding, Rule, Spot
from kvagent.audit.session import Report, Session
from kvagent.audit.transcript import Place

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# Places of a finding besides the first one.
_RELATED = 20
_DIGITS = 16


def write(report: Report) -> str:
    """The log as JSON text."""
    text = json.dumps(as_dict(report), ensure_ascii=False, indent=2)
    return text.encode(errors="replace").decode() + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The log as values that JSON has."""
    sessions = report.sessions
    used = {each.rule.code: each.rule for session in sessions for each in session.findings}
    rules = [used[code] for code in sorted(used)]
    index = {rule.code: at for at, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    run = {
        "tool": {"driver": {"name": "kvagent", "rules": [_rule(each) for each in rules]}},
        "invocations": [
            {
                "executionSuccessful": not report.failed,
                "toolExecutionNotifications": _notifications(report),
            }
        ],
        "results": [
            _result(session, each, index[each.rule.code], seen)
            for session in sessions
            for each in session.findings
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    code = f"\n\n```python\n{rule.example}\n```" if rule.example else ""
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {
            "text": f"{rule.why}\n\n{rule.fix}" + (f"\n\n{rule.example}" if rule.example else ""),
            "markdown": f"{rule.why}\n\n**Fix:** {rule.fix}{code}",
        },
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(session: Session, finding: Finding, index: int, seen: Counter[str]) -> dict[str, Any]:
    first, *others = finding.spots
    many = session.conversations > 1
    mark = _mark(session.file, finding)
    seen[mark] += 1
    result: dict[str, Any] = {
        "ruleId": finding.rule.code,
        "ruleIndex": index,
        "level": finding.rule.severity,
        "message": {"text": _message(session, finding)},
        "locations": [_location(first, many=many)],
        # The name under which code hosts look for one.
        "partialFingerprints": {"primaryLocationLineHash": f"{mark}:{seen[mark]}"},
        "occurrenceCount": max(1, finding.count),
        "properties": _properties(finding),
    }
    if others:
        result["relatedLocations"] = [
            {
                "id": number,
                **_location(each, many=many),
                "message": {"text": place(each, many=many)},
            }
            for number, each in enumerate(others[:_RELATED], 1)
        ]
    return result


def _message(session: Session, finding: Finding) -> str:
    spot = finding.spots[0]
    lines = [one_line(finding.said), cost(finding, exact=is_exact(session))]
    if spot.contrast is not None:
        texts = differing(spot.contrast)
        lines += [f"Before: {texts.before or '(nothing)'}", f"After: {texts.after or '(nothing)'}"]
    elif spot.excerpt:
        lines.append(f"Text: {one_line(spot.excerpt)}")
    lines.append(f"Fix: {finding.fix}")
    return "\n".join(lines)


def _properties(finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = {"name": finding.rule.name}
    if finding.rule.cost:
        found["cost"] = finding.rule.cost
        found["tokens"] = finding.tokens
        if finding.kv_bytes is not None:
            found["kvBytes"] = finding.kv_bytes
    return found


def _mark(file: str, finding: Finding) -> str:
    """The same in the next run, also where lines were added, and figures are others."""
    parts = [finding.rule.code, _uri(file), finding.about]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def _location(spot: Spot, *, many: bool) -> dict[str, Any]:
    return {
        "physicalLocation": _physical(spot.place),
        "logicalLocations": [{"fullyQualifiedName": place(spot, many=many), "kind": "request"}],
    }


def _physical(at: Place) -> dict[str, Any]:
    return {
        "artifactLocation": {"uri": _uri(at.file)},
        "region": {"startLine": max(1, at.line or 1)},
    }


def _uri(file: str) -> str:
    """A file's name as it was given, as a URI: relative where it is."""
    path = PurePath(file)
    escaped = quote(os.fsencode(path.as_posix()))
    if not path.is_absolute():
        return escaped
    return "file://" + ("" if escaped.startswith("/") else "/") + escaped


def _notifications(report: Report) -> Sequence[dict[str, Any]]:
    found = [
        {
            "level": "error",
            "message": {"text": one_line(each.why)},
            "locations": [{"physicalLocation": _physical(Place(each.file))}],
        }
        for each in report.failed
    ]
    for session in report.sessions:
        found += [
            {
                "level": "warning",
                "message": {"text": one_line(f"{each.place} {each.why}")},
                "locations": [{"physicalLocation": _physical(each.place)}],
            }
            for each in session.unreadable
        ]
    found += [
        {
            "level": "error",
            "message": {"text": one_line(f"{gate.name}: {gate.said}")},
        }
        for gate in report.gates
        if gate.failed
    ]
    return found
