"""Does an agent under test keep its prefix, and if not, what is its author told?

Needs no test framework: what does not hold raises ``AssertionError``. The settings are those of the
command, so that a test and a run of the command on the same requests agree.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import orjson

from kvagent.audit.report.lines import cost, differing, one_line, place
from kvagent.audit.report.page.shown import is_exact
from kvagent.audit.rule import Finding
from kvagent.audit.run import audit_files
from kvagent.audit.session import Report, Session
from kvagent.audit.settings import Settings

Body = bytes | str | Mapping[str, Any]
"""Of a chat request, as it was sent."""

# Findings that are told at length; the command tells all.
_TOLD = 5


class Recording(Protocol):
    """What has kept the bodies of requests, such as ``kvagent.testing.Recorder``."""

    @property
    def bodies(self) -> Sequence[Body]:
        """In the order in which they were sent."""


Recorded = str | os.PathLike[str] | Recording | Iterable[Body]
"""A file or folder as the command takes it, or requests."""


def audited(
    recorded: Recorded,
    folder: Path,
    settings: Settings | None = None,
    *,
    select: Sequence[str] | str | None = None,
    ignore: Sequence[str] | str | None = None,
    fail_on: Sequence[str] | str | None = None,
    min_hit_rate: float | str | None = None,
    max_prompt_tokens: int | None = None,
) -> Report:
    """Audit what an agent sent, and raise unless it holds what is asked of it.

    Without ``fail_on``, every finding of ``select`` fails, and without that, every error.

    Args:
        recorded: a transcript's path, or requests in the order in which they were sent.
        folder: where requests are written to, so that the command can be run on them.
        settings: as the command takes them; what is given below goes before them.
        select: the rules to look for, by code, beginning of a code, or name.
        ignore: the rules to leave out of these.
        fail_on: ``error``, ``warning``, ``note``, or rules.
        min_hit_rate: the share of prompt tokens to come from the cache, as ``0.9`` or ``"90%"``.
        max_prompt_tokens: the longest prompt that may be sent.

    Raises:
        AssertionError: it does not hold; the text says what, where, and what to do.
        SettingsError: a setting means nothing.
        ValueError: there is no request, or one that is none.
    """
    __tracebackhide__ = True  # pytest shows the test's line, not this one
    asked = (settings or Settings()).merged(
        select=select,
        ignore=ignore,
        fail_on=fail_on or select,
        min_hit_rate=min_hit_rate,
        max_prompt_tokens=max_prompt_tokens,
        what_if=False,
    )
    asked = asked.model_copy(update={"baseline": None, "fail_on": asked.fail_on or ("error",)})
    path = _path(recorded, folder)
    report = audit_files([path], asked)
    if report.failed:
        raise ValueError(report.failed[0].why)
    if not any(session.requests for session in report.sessions):
        raise ValueError(f"there is no request to audit in {path}")
    for session in report.sessions:
        if session.unreadable and not isinstance(recorded, str | os.PathLike):
            fault = session.unreadable[0]
            raise ValueError(f"request {fault.place.line} {fault.why}")
    if any(gate.failed for gate in report.gates):
        raise AssertionError(_told(report, path))
    return report


def _path(recorded: Recorded, folder: Path) -> str:
    if isinstance(recorded, str | os.PathLike):
        return os.fspath(recorded)
    bodies = recorded.bodies if hasattr(recorded, "bodies") else recorded
    lines = [_line(body, number) for number, body in enumerate(bodies, 1)]
    if not lines:
        raise ValueError("there is no request to audit: was the agent recorded?")
    names = (f"requests{'' if number == 1 else f'_{number}'}.jsonl" for number in count(1))
    path = next(folder / name for name in names if not (folder / name).exists())
    path.write_bytes(b"".join(lines))
    return str(path)


def _line(body: Body, number: int) -> bytes:
    try:
        value = dict(body) if isinstance(body, Mapping) else orjson.loads(body)
        line = orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, ValueError) as error:
        raise ValueError(f"request {number} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"request {number} is no object: give the body of a chat request")
    return line


def _told(report: Report, path: str) -> str:
    found = [
        (session, finding)
        for session in report.sessions
        for finding in session.findings
        if report.failed_for(finding)
    ]
    lines = [f"{gate.name}: {gate.said}" for gate in report.gates if gate.failed]
    for session, finding in found[:_TOLD]:
        lines += ["", *_lines(session, finding)]
    if len(found) > _TOLD:
        lines += ["", f"and {len(found) - _TOLD} more"]
    lines += ["", f"All of it: kvagent audit {path}"]
    return "\n".join(lines)


def _lines(session: Session, finding: Finding) -> Iterator[str]:
    rule, spot = finding.rule, finding.spots[0]
    at = place(spot, many=session.conversations > 1)
    yield f"{rule.code} {rule.name} ({rule.severity}): {one_line(finding.said)}"
    yield f"  {one_line(str(spot.place))} · {at}"
    if spot.contrast is not None:
        texts = differing(spot.contrast)
        yield f"  before: {texts.before or '(nothing)'}"
        yield f"   after: {texts.after or '(nothing)'}"
        if texts.before and texts.after:
            yield f"          {' ' * texts.at}^"
    elif spot.excerpt:
        yield f"  text: {one_line(spot.excerpt)}"
    yield f"  {cost(finding, exact=is_exact(session))}"
    yield f"  Fix: {one_line(finding.fix)}"
    for line in finding.example.splitlines():
        yield f"    {line}"
