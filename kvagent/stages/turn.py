"""What does a stage see of a request, and what may it change?

The messages sent before are no part of it: a stage can only touch the fresh tail, and the head of
a conversation that begins. So a stage need not take care that the prefix stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvagent.chat import ChatRequest
from kvagent.entry import NOTHING_TOLD, Entry, Head, Told
from kvagent.events import Cause
from kvagent.fingerprint import identity
from kvagent.head import HeadView
from kvagent.ledger import Tree
from kvagent.policy import Policy


@dataclass(slots=True)
class Fresh:
    """A message that was not sent before; stages set ``message`` to what shall be sent."""

    index: int
    """Its place among the messages of the request."""
    incoming: Mapping[str, Any]
    raw: bytes
    meaning: bytes
    message: Mapping[str, Any]
    noted: bool = False

    @property
    def role(self) -> str:
        return str(self.incoming["role"])

    @property
    def sent(self) -> bytes:
        """The bytes that go out; those that came, where nothing was changed."""
        return self.raw if self.message is self.incoming else identity(self.message)


@dataclass(frozen=True, slots=True)
class Edit:
    """What was changed and why; becomes an ``Edited`` event."""

    stage: str
    cause: Cause | str
    index: int
    count: int = 1
    saved_tokens: int = 0
    detail: str = ""


@dataclass(slots=True)
class Turn:
    """One request on its way through the stages."""

    request: ChatRequest
    view: HeadView
    tree: Tree
    past: Entry
    """Where the conversation stands; the tree's root for a new one."""
    past_head: Head | None
    """The head that it was sent under with these instructions, else the last one."""
    past_told: Told
    """The volatile values that the model knows before this request."""
    tail: list[Fresh]
    policy: Policy
    window: int | None
    count_tokens: Callable[[str], int]
    store_original: Callable[[str], str]
    """Keeps the original of a text that will be shortened; returns the handle to get it back."""
    resends_reasoning: Callable[[], bool]
    """Whether the chat template keeps the prefix when old reasoning is sent again."""
    head: Head
    """The head to be sent."""
    told: Told = field(default_factory=lambda: NOTHING_TOLD)
    """The volatile values that the model knows after this request."""
    notes: list[str] = field(default_factory=list)
    """Lines that tell the model what changed; they end the newest user or tool message."""
    edits: list[Edit] = field(default_factory=list)

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """All messages as the agent sent them."""
        return self.request.messages

    @property
    def note_bearer(self) -> Fresh | None:
        """The newest fresh user or tool message: where notes go."""
        return next((f for f in reversed(self.tail) if f.role in ("user", "tool")), None)


Stage = Callable[[Turn], None]
"""A stage is a callable: it looks at the turn and changes its tail."""
