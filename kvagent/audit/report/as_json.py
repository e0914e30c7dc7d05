"""How does a program read an audit?

As one JSON object; ``audit.schema.json`` beside this file says what every key means. What is not
known, or is not there, is null, never 0 and never an empty text.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import orjson

from kvagent.audit.reported import Gap
from kvagent.audit.rule import Contrast, Finding, Spot
from kvagent.audit.session import (
    Break,
    Failed,
    Gate,
    Report,
    Result,
    Row,
    Session,
    Timeline,
    WhatIf,
)
from kvagent.audit.transcript import Place, Reported, Unreadable
from kvagent.audit.turns import Parts, Totals, Traced

VERSION = 1
"""Of the form. It grows when a key goes or changes its meaning; one that is added is no new one."""

# Characters of an error that are told.
_ERROR = 500


def write(report: Report) -> str:
    """The report as JSON text, which ends with a line feed."""
    value = as_dict(report)
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    except TypeError:
        # Half a surrogate pair, as in a file's name that is not UTF-8, or a number beyond 64 bits.
        text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
        return text.encode(errors="replace").decode() + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The report as values that JSON has."""
    return {
        "version": VERSION,
        "redacted": report.redacted,
        "sessions": [_session(each) for each in report.sessions],
        "failed": [_failed(each) for each in report.failed],
        "gates": [_gate(each) for each in report.gates],
        "passed_over": list(report.passed_over),
    }


def _session(session: Session) -> dict[str, Any]:
    target = session.target
    return {
        "file": session.file,
        "format": session.format,
        "format_title": session.format_title,
        "counter": session.counter,
        "exact": session.exact,
        "target": {
            "kind": target.kind,
            "block_size": target.block_size,
            "blocks": target.blocks,
            "slots": target.slots,
            "window": target.window,
        },
        "conversations": session.conversations,
        "totals": _totals(session.totals),
        "findings": [_finding(each) for each in session.findings],
        "what_if": None if session.what_if is None else _what_if(session.what_if),
        "notes": list(session.notes),
        "rows": [_row(each) for each in session.rows],
        "traced": [_traced(each) for each in session.traced],
        "results": [_result(each) for each in session.results],
        "timelines": [_timeline(*each) for each in session.timelines.items()],
        "unreadable": [_unreadable(each) for each in session.unreadable],
        "unreadable_count": session.unreadable_count,
    }


def _totals(sums: Totals) -> dict[str, Any]:
    told = sums.reported_requests > 0
    return {
        "requests": sums.requests,
        "prompt_tokens": sums.prompt_tokens,
        "predicted_tokens": sums.predicted_tokens,
        "hit_rate": sums.hit_rate,
        "wasted_tokens": sums.wasted_tokens,
        "longest": sums.longest,
        "reported_requests": sums.reported_requests,
        "reported_prompt_tokens": sums.reported_prompt_tokens if told else None,
        "reported_cached_tokens": sums.reported_cached_tokens if told else None,
        "reported_hit_rate": sums.reported_hit_rate,
        "breaks": dict(sorted(sums.breaks.items())),
        "exact": sums.exact,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    counted = bool(rule.cost)
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "cost": rule.cost or None,
        "summary": rule.summary,
        "said": finding.said,
        "why": rule.why,
        "fix": finding.fix,
        "example": finding.example or None,
        "count": finding.count,
        "tokens": finding.tokens if counted else None,
        "kv_bytes": finding.kv_bytes if counted else None,
        "about": finding.about or None,
        "spots": [_spot(each, counted=counted) for each in finding.spots],
    }


def _spot(spot: Spot, *, counted: bool) -> dict[str, Any]:
    return {
        "place": _place(spot.place),
        "conversation": spot.conversation,
        "turn": spot.turn,
        "message": spot.message,
        "tool": spot.tool,
        "field": spot.field or None,
        "character": spot.character,
        "tokens": spot.tokens if counted else None,
        "contrast": None if spot.contrast is None else _contrast(spot.contrast),
        "excerpt": spot.excerpt or None,
        "behind": spot.behind or None,
    }


def _contrast(contrast: Contrast) -> dict[str, Any]:
    # An empty side is known: there, nothing was sent.
    return {"before": contrast.before, "after": contrast.after, "offset": contrast.offset}


def _what_if(what_if: WhatIf) -> dict[str, Any]:
    return {
        "policy": what_if.policy,
        "before": _totals(what_if.before),
        "after": _totals(what_if.after),
        "edited": what_if.edited,
        "saved_tokens": what_if.saved_tokens,
        "kv_peak_before": what_if.kv_peak_before,
        "kv_peak_after": what_if.kv_peak_after,
        "left_out": what_if.left_out or None,
        "breaks_before": what_if.breaks_before,
        "breaks_after": what_if.breaks_after,
        "stages": [{"stage": stage, "requests": count} for stage, count in what_if.stages],
        "refused_before": what_if.refused_before,
        "refused_after": what_if.refused_after,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "place": _place(row.place),
        "conversation": row.conversation,
        "branch": row.branch,
        "number": row.number,
        "kind": row.kind,
        "messages": row.messages,
        "prompt_tokens": row.prompt_tokens,
        "exact": row.exact,
        "fault": row.fault or None,
        "parts": _parts(row.parts),
        "growth": row.growth,
        "reusable_tokens": row.reusable_tokens,
        "predicted_tokens": row.predicted_tokens,
        "loss": row.loss or None,
        "wasted_tokens": row.wasted_tokens,
        "kv_bytes": row.kv_bytes,
        "reported": _reported(row.reported),
        "gap": None if row.gap is None else _gap(row.gap),
        "error": None if row.error is None else _begins(row.error),
        "time_s": _finite(row.time_s),
        "breaks": [_break(each) for each in row.breaks],
    }


def _parts(parts: Parts) -> dict[str, int]:
    return {
        "head": parts.head,
        "user": parts.user,
        "assistant": parts.assistant,
        "tool": parts.tool,
    }


def _reported(reported: Reported) -> dict[str, int | None]:
    return {
        "prompt_tokens": reported.prompt_tokens,
        "cached_tokens": reported.cached_tokens,
        "completion_tokens": reported.completion_tokens,
        "cache_write_tokens": reported.cache_write_tokens,
    }


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "reported_tokens": gap.reported_tokens,
        "expected_tokens": gap.expected_tokens,
        "reason": gap.reason,
    }


def _break(found: Break) -> dict[str, Any]:
    return {"where": found.where, "index": found.index, "cause": found.cause}


def _traced(traced: Traced) -> dict[str, Any]:
    request = traced.request
    return {
        "place": _place(request.place),
        "prompt_tokens": traced.prompt_tokens,
        "full_tokens": traced.full_tokens,
        "predicted_tokens": traced.predicted_tokens,
        "loss": traced.loss or None,
        "lost_tokens": traced.lost_tokens,
        "block_size": request.block_size,
        "completion_tokens": request.completion_tokens,
        "time_s": _finite(request.time_s),
    }


def _result(result: Result) -> dict[str, Any]:
    return {
        "place": _place(result.place),
        "conversation": result.conversation,
        "turn": result.turn,
        "message": result.message,
        "tool": result.tool or None,
        "tokens": result.tokens,
        "characters": result.characters,
    }


def _timeline(conversation: int, timeline: Timeline) -> dict[str, Any]:
    return {
        "conversation": conversation,
        "roles": list(timeline.roles),
        "tokens": list(timeline.tokens),
        "turns": list(timeline.turns),
    }


def _unreadable(unreadable: Unreadable) -> dict[str, Any]:
    return {"place": _place(unreadable.place), "why": unreadable.why}


def _failed(failed: Failed) -> dict[str, Any]:
    return {"file": failed.file, "why": failed.why}


def _gate(gate: Gate) -> dict[str, Any]:
    return {
        "name": gate.name,
        "failed": gate.failed,
        "said": gate.said,
        "file": gate.file or None,
    }


def _place(place: Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.line, "path": place.path or None}


def _begins(text: str) -> str:
    """An error as far as it is one: some quote the whole prompt."""
    return text if len(text) <= _ERROR else f"{text[:_ERROR]}…"


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and isfinite(seconds) else None
