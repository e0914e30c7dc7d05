"""What becomes of a transcript that is audited?

Its requests pass once, one after the other: counted, looked at by every check, and let go. What is
held of each is a row of figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from kvagent.audit.findings import Findings
from kvagent.audit.formats.format import Format
from kvagent.audit.largest import Largest
from kvagent.audit.notes import Seen, notes
from kvagent.audit.rule import Check, TraceCheck
from kvagent.audit.session import Row, Session, Timeline
from kvagent.audit.transcript import Item, Unreadable
from kvagent.audit.turns import Analysis, Traced, Turn

# Lines that could not be read and are named, besides the one where the file breaks off.
_NAMED = 20


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
    largest, seen = Largest(), Seen()
    looks = [check.turn for check in checks]
    looks_at_traces = [check.traced for check in checks if isinstance(check, TraceCheck)]
    for turn in analysis.turns(items):
        if isinstance(turn, Unreadable):
            session.unreadable_count += 1
            if session.unreadable_count <= _NAMED or turn.is_end:
                session.unreadable.append(turn)
            continue
        if isinstance(turn, Traced):
            session.traced.append(turn)
            session.totals.add(turn)
            for look_at in looks_at_traces:
                findings.add(look_at(turn))
            continue
        session.rows.append(Row.of(turn))
        session.totals.add(turn)
        for look in looks:
            if sightings := look(turn):
                findings.add(sightings)
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


def _extend(session: Session, turn: Turn) -> None:
    """Bring the conversation's timeline to what this turn was sent."""
    timeline = session.timelines.get(turn.conversation)
    if timeline is None:
        timeline = session.timelines[turn.conversation] = Timeline()
    roles, tokens, turns = timeline.roles, timeline.tokens, timeline.turns
    known, number = turn.placed.snapshot.messages, turn.number
    first = min(turn.placed.common, len(roles))
    if first < len(roles):
        # A branch shows the messages of the request that came last.
        del roles[first:], tokens[first:], turns[first:]
    for at in range(first, len(known)):
        roles.append(known[at].role)
        tokens.append(turn.size_of(at))
        turns.append(number)
