"""What can be wrong with a session, where was it seen, and what did it cost?

A rule is one way to lose the prefix or the window. A check looks at one turn after the other and
tells what it sees; sightings of one fault become one finding.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from kvagent.audit.transcript import Place
from kvagent.audit.turns import Traced, Turn

Severity = Literal["error", "warning", "note"]
"""``error``: prefill was lost that kvagent or its user can save, or a request failed; ``warning``:
it may come to that, or the window fills with what serves nobody; ``note``: worth knowing, and often
meant so."""

Cost = Literal["prefill", "context", ""]
"""What a rule's tokens are: ``prefill``: computed once more although they had been computed before;
``context``: they stand in the prompt and need not; empty: it costs none that can be counted."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to lose the prefix or the window."""

    code: str
    """As in ``KVA101``; never given to another rule."""
    name: str
    """As in ``clock-in-head``."""
    severity: Severity
    cost: Cost
    summary: str
    """What is wrong, in one sentence."""
    why: str
    """What it does to prefix or window and how it comes about, in a paragraph or two."""
    fix: str
    """What to do, in one sentence."""
    example: str = ""
    """The fix as code, where code helps."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two texts around the first character in which they differ."""

    before: str
    after: str
    offset: int
    """Where in both that character stands."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One place at which a fault was seen."""

    place: Place
    conversation: int
    """Its number, from 0."""
    turn: int
    """Which request of the conversation, from 1."""
    message: int | None = None
    """Which of the request's messages, from 0; None: it is in none."""
    tool: int | None = None
    """Which of its tools, from 0; None: it is in none."""
    field: str = ""
    """The text within message or tool, as in ``content`` or ``tool_calls[0].function.arguments``."""
    character: int | None = None
    """At which character of that text, from 0."""
    tokens: int = 0
    """What it cost here, in the rule's own kind of tokens."""
    contrast: Contrast | None = None
    """What was sent before beside what is sent now."""
    excerpt: str = ""
    """The beginning of the text that is at fault, where there is nothing to compare it with."""
    behind: str = ""
    """The code of the fault that stands in front of it in this turn and has the cost of both."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A fault seen once."""

    rule: Rule
    key: Hashable
    """Sightings with one rule, conversation and key are one fault."""
    spot: Spot
    said: str
    """What happened, in one sentence that fits all of the fault's sightings."""
    fix: str = ""
    """What to do here, where it can be said better than the rule says it."""
    example: str = ""
    """The same as code."""
    count: int = 1
    """How often it was seen, where only one of these places is told."""
    everywhere: bool = False
    """Whether it is one fault in whatever conversation it is seen: of the server, of the log."""


class Check(Protocol):
    """Sees all turns of a transcript in their order. What it holds must not grow with the log."""

    def turn(self, turn: Turn) -> Iterable[Sighting]:
        """What is wrong with the next turn; mostly nothing, and ``()`` says so at no cost."""

    def end(self) -> Iterable[Sighting]:
        """What can be said only now that all were seen."""


@runtime_checkable
class TraceCheck(Check, Protocol):
    """Sees the requests of a trace without texts, too."""

    def traced(self, traced: Traced) -> Iterable[Sighting]:
        """What is wrong with the next one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault and everywhere it was seen."""

    rule: Rule
    said: str
    fix: str
    example: str
    spots: Sequence[Spot]
    """Where, in the order of the turns; of very many the first ones."""
    count: int
    """How often it was seen."""
    tokens: int
    """What all sightings cost together, in the rule's own kind of tokens."""
    kv_bytes: int | None
    """Of the KV cache that so many tokens take; None unless a model was named."""
    about: str = ""
    """Its sightings' key as text: what it is, the same in the next recording of the same agent."""
