"""What goes out for a request, and what is to be kept of it once it is answered?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvagent.events import Event, PrefixBroken
from kvagent.form import Form
from kvagent.recognise import Match
from kvagent.resume import Resumable
from kvagent.stages import Turn


@dataclass(slots=True)
class Plan:
    """A request made ready."""

    turn: Turn
    match: Match
    form: Form
    conversation: str
    session: str | None
    namespace: str
    events: list[Event]
    before: Resumable | None

    @property
    def broken(self) -> bool:
        """Whether the prefix broke with this request."""
        return any(isinstance(event, PrefixBroken) for event in self.events)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the model asked of kvagent within a turn, and was told."""

    messages: tuple[Mapping[str, Any], ...] = ()
    shown: str = ""
    """Text that was streamed to the caller before the last of these questions."""
    times: int = 0
    counts: Mapping[str, Any] = field(default_factory=dict)
    """What the server counted when the model was asked first: the agent's own request."""
