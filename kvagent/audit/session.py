"""What does the audit of one transcript say?

Figures and findings; of the prompts nothing but the texts that findings show.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from kvagent.audit.conversations import Kind
from kvagent.audit.difference import Where, Why
from kvagent.audit.prediction import Target
from kvagent.audit.reported import Gap
from kvagent.audit.rule import Finding
from kvagent.audit.transcript import Place, Reported, Unreadable
from kvagent.audit.turns import Parts, Totals, Traced, Turn
from kvagent.prefixcache.hit import Loss


@dataclass(frozen=True, slots=True)
class Break:
    """Where a prompt leaves the one before it, without its texts."""

    where: Where
    index: int
    cause: Why


# Not frozen, only because there is one for each request: a frozen one takes much longer to make.
@dataclass(slots=True)
class Row:
    """One request in figures; they mean what they mean in ``Turn``."""

    place: Place
    conversation: int
    branch: int
    number: int
    kind: Kind
    messages: int
    prompt_tokens: int
    exact: bool
    fault: str
    parts: Parts
    growth: int | None
    reusable_tokens: int
    predicted_tokens: int | None
    loss: Loss
    wasted_tokens: int
    kv_bytes: int | None
    reported: Reported
    gap: Gap | None
    error: str | None
    time_s: float | None
    breaks: Sequence[Break] = ()

    @classmethod
    def of(cls, turn: Turn) -> Row:
        """The figures of a turn."""
        placed, request = turn.placed, turn.placed.request
        breaks: Sequence[Break] = ()
        if turn.differences:
            breaks = tuple(Break(each.where, each.index, each.cause) for each in turn.breaks)
        return cls(
            request.place,
            placed.conversation,
            placed.branch,
            placed.number,
            placed.kind,
            len(request.messages),
            turn.prompt_tokens,
            turn.exact,
            turn.fault,
            turn.parts,
            turn.growth,
            turn.reusable_tokens,
            turn.predicted_tokens,
            turn.loss,
            turn.wasted_tokens,
            turn.kv_bytes,
            request.reported,
            turn.gap,
            request.error,
            request.time_s,
            breaks,
        )


@dataclass(frozen=True, slots=True)
class Result:
    """A tool result, when it was sent first."""

    place: Place
    conversation: int
    turn: int
    message: int
    tool: str
    """The name of the tool that gave it; empty where the transcript does not say."""
    tokens: int
    characters: int


@dataclass(slots=True)
class Timeline:
    """The messages of a conversation as its last request has them."""

    roles: list[str] = field(default_factory=list)
    tokens: array[int] = field(default_factory=lambda: array("I"))
    """Of each message."""
    turns: array[int] = field(default_factory=lambda: array("I"))
    """In which turn each was sent first in this form and place."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The same session, sent through kvagent."""

    policy: str
    """What was set, in words."""
    before: Totals
    after: Totals
    edited: int
    """Requests that left in another form than they came."""
    saved_tokens: int
    """Of prefill, on the chosen server: below 0 where it would cost some."""
    kv_peak_before: int | None
    """Bytes of the KV cache at the longest prompt; None unless a model was named."""
    kv_peak_after: int | None
    left_out: str = ""
    """Why there is no such figure, or what it does not cover; in one sentence."""
    breaks_before: int = 0
    """Requests whose prefix broke."""
    breaks_after: int = 0
    stages: Sequence[tuple[str, int]] = ()
    """Which stages edited, and how many requests each; most first."""
    refused_before: int = 0
    """Requests that the server refuses because they do not fit in its window."""
    refused_after: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that the user set, and whether it holds."""

    name: str
    """As its option is called: ``fail-on error``, ``min-hit-rate``, ..."""
    failed: bool
    said: str
    """What was found, in one sentence with the figures."""
    file: str = ""
    """Of which transcript; empty: of all of them."""
    findings: Sequence[Finding] = ()
    """Those that it failed for."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A file that could not be audited."""

    file: str
    why: str
    """In one sentence."""


@dataclass(slots=True)
class Session:
    """The audit of one transcript."""

    file: str
    format: str
    """The name of its format, as for ``--from``."""
    format_title: str
    counter: str
    """What counted the tokens."""
    exact: bool
    """Whether all of them are the model's own."""
    target: Target
    rows: list[Row] = field(default_factory=list)
    traced: list[Traced] = field(default_factory=list)
    """Requests of a trace without texts, in place of rows."""
    unreadable: list[Unreadable] = field(default_factory=list)
    """What could not be read; of very many the first ones."""
    unreadable_count: int = 0
    conversations: int = 0
    totals: Totals = field(default_factory=Totals)
    findings: Sequence[Finding] = ()
    results: Sequence[Result] = ()
    """The largest tool results, the largest first."""
    timelines: dict[int, Timeline] = field(default_factory=dict)
    """By conversation."""
    notes: list[str] = field(default_factory=list)
    """What the figures leave out, a sentence each."""
    what_if: WhatIf | None = None

    @property
    def is_exact(self) -> bool:
        """Whether its figures are no estimates: a trace says itself how many tokens there were."""
        return self.exact or (bool(self.traced) and not self.rows)

    @property
    def requests(self) -> int:
        """How many model calls the transcript holds."""
        return len(self.rows) or len(self.traced)


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run of the command says."""

    sessions: Sequence[Session]
    """In the order in which they were given."""
    failed: Sequence[Failed] = ()
    gates: Sequence[Gate] = ()
    redacted: bool = False
    """Whether texts were replaced by stand-ins."""
    passed_over: Sequence[str] = ()
    """Files of folders that are no transcripts."""

    def failed_for(self, finding: Finding) -> bool:
        """Whether it is one of those for which a gate failed."""
        return any(finding in gate.findings for gate in self.gates)

    @property
    def worst_first(self) -> list[Session]:
        """By what breaks of the prefix waste, then by the prefill that all findings cost."""

        def wasted(session: Session) -> tuple[int, int]:
            lost = sum(each.tokens for each in session.findings if each.rule.cost == "prefill")
            return session.totals.wasted_tokens, lost

        return sorted(self.sessions, key=wasted, reverse=True)
