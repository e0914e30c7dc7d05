"""What of a report is shown in full, so that its page stays small, and in which order?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kvagent.audit.figures import count, several, share
from kvagent.audit.names import folder_of
from kvagent.audit.report.page.chart import Chart, charts, reports, trace
from kvagent.audit.report.page.faults import Fault, faults
from kvagent.audit.report.page.flows import Flow, flows, longest_prompt, traced
from kvagent.audit.report.page.sampled import sampled
from kvagent.audit.report.page.timeline import Line, lines
from kvagent.audit.report.page.words import server
from kvagent.audit.reported import SENTENCES, Reason
from kvagent.audit.rule import Finding, Severity
from kvagent.audit.session import Report, Result, Row, Session, Timeline
from kvagent.audit.turns import Totals, Traced

_SESSIONS = 12
# Of the whole page: each session has its share.
_COLUMNS = 1_500
_ROWS = 1_200
_FAULTS = 60
_BLOCKS = 2_400
_CONVERSATIONS = 200
_RESULTS = 50
_REQUESTS = 100
# However many sessions there are.
_LEAST = 10
# Of a session, and of a conversation.
_DRAWN = 12
_WIDEST = 600


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation in figures."""

    number: int
    requests: int
    longest: int
    prompt_tokens: int
    hit_rate: float | None
    wasted_tokens: int
    reported_hit_rate: float | None
    breaks: int
    """Requests at which the prefix broke."""
    exact: bool


@dataclass(frozen=True, slots=True)
class Drawn:
    """A conversation as pictures."""

    conversation: Conversation
    charts: list[Chart]
    columns: int
    """Of its requests, those that have a column."""
    timeline: list[Line]


@dataclass(frozen=True, slots=True)
class Gaps:
    """Requests whose report differs from the prediction for one reason."""

    reason: str
    requests: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page shows of a session."""

    session: Session
    id: str
    """Within the page."""
    exact: bool
    target: str
    verdict: list[str]
    """What matters, in a few sentences."""
    severities: list[tuple[Severity, int]]
    """How many findings of each, without those that are none."""
    flows: list[Flow]
    longest: Flow | None
    kv_peak: int | None
    faults: list[Fault]
    more_faults: int
    """Those that cost less and are not shown."""
    conversations: list[Conversation]
    """The worst first; of very many those."""
    drawn: list[Drawn]
    rows: list[Row]
    results: Sequence[Result]
    gaps: list[Gaps]
    trace: Chart | None
    requests: Sequence[Traced]
    """The largest of a trace."""

    @property
    def prefilled(self) -> int:
        """Tokens that the server would compute."""
        return self.session.totals.prompt_tokens - self.session.totals.predicted_tokens

    @property
    def many(self) -> bool:
        """Whether a conversation must be named for a turn to be known."""
        return self.session.conversations > 1


@dataclass(frozen=True, slots=True)
class Together:
    """The sums over all sessions; hit rates and waste are those of the chosen server."""

    totals: Totals
    exact: bool
    findings: list[tuple[Severity, int]]
    folder: str
    """In which all files are, with its separator; empty where there is none."""


def all_shown(report: Report) -> list[Shown]:
    """The sessions that are shown in full, worst first."""
    worst = report.worst_first[:_SESSIONS]
    return [_shown(each, f"s{number}", len(worst)) for number, each in enumerate(worst, 1)]


def together(report: Report) -> Together:
    """The sums over the sessions of a report."""
    sums = Totals()
    for session in report.sessions:
        sums.include(session.totals)
    exact = all(map(is_exact, report.sessions))
    findings = [each for session in report.sessions for each in session.findings]
    names = [session.file for session in report.sessions]
    return Together(sums, exact, severities(findings), folder_of(names))


def is_exact(session: Session) -> bool:
    """Whether its figures are no estimates."""
    return session.is_exact


def severities(findings: Sequence[Finding]) -> list[tuple[Severity, int]]:
    """How many of each, without those that are none."""
    counted = Counter(each.rule.severity for each in findings)
    order: tuple[Severity, ...] = ("error", "warning", "note")
    return [(name, counted[name]) for name in order if counted[name]]


def _shown(session: Session, id: str, parts: int) -> Shown:
    """One of so many sessions."""
    groups: dict[int, list[Row]] = {}
    for row in session.rows:
        groups.setdefault(row.conversation, []).append(row)
    conversations = sorted(
        (_conversation(number, group) for number, group in groups.items()),
        key=lambda each: (-each.wasted_tokens, -each.prompt_tokens, each.number),
    )
    drawn = []
    columns, blocks = _COLUMNS // parts, _BLOCKS // parts
    for each in conversations[:_DRAWN]:
        if columns < min(each.requests, 2) or blocks < _LEAST:
            break
        group = groups[each.number]
        chosen = sampled(group, min(_WIDEST, columns))
        columns -= len(chosen)
        timeline = session.timelines.get(each.number, Timeline())
        # One column says no more than the bars above.
        pictures = charts(chosen) if len(chosen) > 1 else []
        strip = lines(timeline, group, each.exact, blocks)
        blocks -= sum(len(line.blocks) for line in strip)
        drawn.append(Drawn(each, pictures, len(chosen), strip))
    kv = [row.kv_bytes for row in session.rows if row.kv_bytes is not None]
    exact = is_exact(session)
    found = faults(session.findings)
    return Shown(
        session,
        id,
        exact,
        server(session.target, session.traced[0].request.block_size if session.traced else None),
        _verdict(session, exact),
        severities(session.findings),
        flows(session) if session.rows else [traced(session)] if session.traced else [],
        longest_prompt(session),
        max(kv, default=None),
        found[: _share(_FAULTS, parts)],
        max(0, len(found) - _share(_FAULTS, parts)),
        conversations[: _share(_CONVERSATIONS, parts)],
        drawn,
        sampled(session.rows, _share(_ROWS, parts)),
        session.results[: _share(_RESULTS, parts)],
        _gaps(session.rows),
        trace(session.traced) if session.traced else None,
        sorted(session.traced, key=lambda each: -each.prompt_tokens)[: _share(_REQUESTS, parts)],
    )


def _share(whole: int, parts: int) -> int:
    return max(_LEAST, whole // parts)


def _conversation(number: int, rows: Sequence[Row]) -> Conversation:
    taken = [row for row in rows if row.predicted_tokens is not None]
    prompts = sum(row.prompt_tokens for row in taken)
    told = [row for row in rows if reports(row)]
    reported = sum(row.reported.prompt_tokens or 0 for row in told)
    given = sum(row.reported.cached_tokens or 0 for row in told)
    return Conversation(
        number,
        len(rows),
        max(row.prompt_tokens for row in rows),
        prompts,
        sum(row.predicted_tokens or 0 for row in taken) / prompts if prompts else None,
        sum(row.wasted_tokens for row in rows),
        given / reported if reported else None,
        sum(bool(row.breaks) for row in rows),
        all(row.exact for row in rows),
    )


def _gaps(rows: Sequence[Row]) -> list[Gaps]:
    """Most tokens first; where reports agree there is nothing to say."""
    requests: Counter[Reason] = Counter()
    tokens: Counter[Reason] = Counter()
    for row in rows:
        if row.gap is not None and row.gap.reason != "agrees":
            requests[row.gap.reason] += 1
            tokens[row.gap.reason] += row.gap.tokens
    order = sorted(requests, key=lambda reason: (-abs(tokens[reason]), reason))
    return [Gaps(SENTENCES[each], requests[each], tokens[each]) for each in order]


def _verdict(session: Session, exact: bool) -> list[str]:
    sums = session.totals
    if not session.requests:
        return ["It holds no request that could be read."]
    if not session.rows:
        hit = share(sums.hit_rate)
        return [
            f"A trace without texts: {hit} of its prompt tokens would come from the cache.",
            "What breaks a prefix cannot be seen in it.",
        ]
    said = []
    broken = sum(bool(row.breaks) for row in session.rows)
    if broken:
        part = sums.wasted_tokens / sums.prompt_tokens if sums.prompt_tokens else 0.0
        said.append(
            f"The prefix breaks at {broken:,} of {several(len(session.rows), 'request')}: "
            f"{count(sums.wasted_tokens, exact)} tokens ({share(part, exact)} of all) are prefilled "
            "again although they had been sent before."
        )
    elif len(session.rows) > 1:
        said.append("No request breaks its prefix: what is prefilled is new.")
    rate, told = sums.hit_rate, sums.reported_hit_rate
    gaps = _gaps(session.rows)
    if rate is not None and told is not None and gaps and abs(rate - told) >= 0.01:
        less = "less" if told < rate else "more"
        likely = next((each for each in gaps if (each.tokens < 0) == (told < rate)), gaps[0])
        said.append(
            f"The log reports a hit rate of {share(told)}, {less} than the {share(rate, exact)} "
            f"that its prompts allow; most of it: {likely.reason}."
        )
    refused = sum(row.predicted_tokens is None for row in session.rows)
    if refused:
        said.append(f"{several(refused, 'prompt')} longer than the window.")
    return said
