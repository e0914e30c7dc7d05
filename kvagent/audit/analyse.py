"""What becomes of a transcript that is audited?

Its requests pass once, one after the other: counted, looked at by every check, and let go. What is
held of each is a row of figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappush, heappushpop
from typing import Any, Protocol

from kvagent.audit.findings import Findings
from kvagent.audit.formats.format import Format
from kvagent.audit.notes import Seen, notes
from kvagent.audit.rule import Check, TraceCheck
from kvagent.audit.session import Result, Row, Session, Timeline
from kvagent.audit.transcript import Item, Request, Unreadable
from kvagent.audit.turns import Analysis, Turn
from kvagent.chat import calls_of, text_of

# Lines that could not be read, and large results, that are named.
_NAMED = 20
_LARGEST = 100


class Watcher(Protocol):
    """Is shown every request, counted."""

    def turn(self, turn: Turn) -> None:
        """The next one."""


def audit(
    items: Iterable[Item],
    file: str,
    format: Format,
    analysis: Analysis,
    checks: Sequence[Check] = (),
    watchers: Sequence[Watcher] = (),
) -> Session:
    """Audit one transcript.

    Args:
        items: what is in it.
        file: its name, for people.
        format: what it was read as.
        analysis: counts; a fresh one.
        checks: look for faults; fresh ones.
        watchers: see each turn besides.
    """
    prompts = analysis.prompts
    session = Session(file, format.name, format.title, prompts.name, prompts.exact, analysis.target)
    findings = Findings(analysis.kv_bytes)
    largest, seen = _Largest(), Seen()
    for item in items:
        if isinstance(item, Unreadable):
            session.unreadable_count += 1
            if session.unreadable_count <= _NAMED:
                session.unreadable.append(item)
            continue
        if not isinstance(item, Request):
            traced = analysis.traced(item)
            session.traced.append(traced)
            session.totals.add(traced)
            for check in checks:
                if isinstance(check, TraceCheck):
                    findings.add(check.traced(traced))
            continue
        turn = analysis.turn(item)
        session.rows.append(Row.of(turn))
        session.totals.add(turn)
        for check in checks:
            findings.add(check.turn(turn))
        largest.turn(turn)
        seen.turn(turn)
        _extend(session, turn)
        for watcher in watchers:
            watcher.turn(turn)
    for check in checks:
        findings.add(check.end())
    session.conversations = len({row.conversation for row in session.rows})
    session.exact = session.exact and session.totals.exact
    session.findings = findings.all()
    session.results = largest.all()
    session.notes = notes(session, seen)
    return session


class _Largest:
    """The largest tool results, each when it was sent first."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Result]] = []
        self._count = 0

    def turn(self, turn: Turn) -> None:
        """See what is new in a turn."""
        messages, known = turn.request.messages, turn.placed.snapshot.messages
        sent = _sent_behind(turn)
        for number in turn.fresh:
            if known[number].role not in ("tool", "function") or known[number].gist in sent:
                continue
            tokens = turn.size_of(number)
            if len(self._heap) == _LARGEST and tokens <= self._heap[0][0]:
                continue
            message = messages[number]
            result = Result(
                turn.place,
                turn.conversation,
                turn.number,
                number,
                _tool_of(messages, number),
                tokens,
                len(text_of(message)),
            )
            self._count += 1
            # Of two that are alike the earlier one goes first.
            entry = (tokens, -self._count, result)
            (heappush if len(self._heap) < _LARGEST else heappushpop)(self._heap, entry)

    def all(self) -> list[Result]:
        """The largest first."""
        return [result for _, _, result in sorted(self._heap, reverse=True)]


def _sent_behind(turn: Turn) -> set[bytes]:
    """What was sent before behind the place at which this request differs from the one before."""
    before, common = turn.placed.before, turn.placed.common
    return set() if before is None else {message.gist for message in before.messages[common:]}


def _tool_of(messages: Sequence[Mapping[str, Any]], number: int) -> str:
    """The name of the tool that gave a result; empty where the transcript does not say."""
    message = messages[number]
    if isinstance(name := message.get("name"), str):
        return name
    wanted = message.get("tool_call_id")
    for earlier in reversed(messages[:number]):
        for call in calls_of(earlier):
            function = call.get("function")
            if call.get("id") == wanted and isinstance(function, dict):
                return str(function.get("name") or "")
        if earlier.get("role") == "user":
            break
    return ""


def _extend(session: Session, turn: Turn) -> None:
    """Bring the conversation's timeline to what this turn was sent."""
    timeline = session.timelines.setdefault(turn.conversation, Timeline())
    first, known = turn.placed.common, turn.placed.snapshot.messages
    # A branch shows the messages of the request that came last.
    first = min(first, len(timeline.roles))
    del timeline.roles[first:], timeline.tokens[first:], timeline.turns[first:]
    for number in range(first, len(known)):
        timeline.roles.append(known[number].role)
        timeline.tokens.append(turn.size_of(number))
        timeline.turns.append(turn.number)
