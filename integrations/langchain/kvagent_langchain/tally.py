"""What do the turns of a run add up to?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kvagent import CacheMissed, Edited, Event, PrefixBroken, TurnFinished
from kvagent.events import Cause, Part

# What came in another form than it was sent. The engine says so as long as it would have mended it.
_OTHER_FORM = "replay"


@dataclass(slots=True)
class Tally:
    """Sums over answered turns. Tokens are the model's own counts, lost ones estimates."""

    turns: int = 0
    prompt_tokens: int = 0
    """Whole prompts, cached tokens included."""
    completion_tokens: int = 0
    cached_tokens: int | None = None
    """None until a reply says how many of its prompt tokens came from the server's cache."""
    prefilled_tokens: int | None = None
    """What the server computed; None as long."""
    breaks: int = 0
    """Prompts that differed from the one before at a place that the server had cached."""
    misses: int = 0
    """Prompts that only grew, and still were not in the cache."""
    lost_tokens: int = 0
    """About what was prefilled again because of breaks and misses."""

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens that came from the cache, where replies say so."""
        if self.cached_tokens is None or self.prefilled_tokens is None:
            return None
        told_of = self.cached_tokens + self.prefilled_tokens
        return self.cached_tokens / told_of if told_of else None

    def add(self, event: Event) -> None:
        """Count what an event tells."""
        match event:
            case TurnFinished():
                self.turns += 1
                self.prompt_tokens += event.prompt_tokens or 0
                self.completion_tokens += event.completion_tokens or 0
                if event.cached_tokens is not None and event.prefilled_tokens is not None:
                    self.cached_tokens = (self.cached_tokens or 0) + event.cached_tokens
                    self.prefilled_tokens = (self.prefilled_tokens or 0) + event.prefilled_tokens
            case PrefixBroken():
                self.breaks += 1
                self.lost_tokens += event.lost_tokens
            case CacheMissed():
                self.misses += 1
                self.lost_tokens += event.expected_tokens - event.cached_tokens


@dataclass(slots=True, kw_only=True)
class Conversation(Tally):
    """One conversation with one model."""

    name: str
    """The thread's id, or one made of its first message."""
    model: str
    newest_prompt_tokens: int | None = None
    growth_per_turn: float | None = None
    """Mean tokens a turn adds to the prompt, over the last eight turns."""
    growth: Mapping[Part, int] = field(default_factory=dict)
    """Tokens by the part of the prompt that they are in: what it grew by, the beginning included."""
    window: int | None = None
    turns_left: int | None = None
    """Turns until the window is full if the prompt goes on growing so."""
    mended: dict[str, int] = field(default_factory=dict)
    """By cause: how many messages stand in another form than at first."""
    broken: bool = False
    """Whether the turn that is to be finished next breaks the prefix."""
    was_broken: bool = False
    """Whether the newest turn broke it."""

    @property
    def window_share(self) -> float | None:
        """How much of the window the newest prompt takes."""
        if self.window is None or self.newest_prompt_tokens is None:
            return None
        return self.newest_prompt_tokens / self.window

    def add(self, event: Event) -> None:
        # not super(): a dataclass with slots is another class than the one written here
        Tally.add(self, event)
        if isinstance(event, PrefixBroken):
            self.broken = True
        if isinstance(event, TurnFinished):
            self.was_broken, self.broken = self.broken, False
            self.newest_prompt_tokens = event.prompt_tokens
            self.window, self.turns_left = event.window, event.turns_left
            self.growth_per_turn = event.growth_per_turn or self.growth_per_turn
            if event.turn > 1 or self.turns == 1:  # else it begins anew: nothing that it grew by
                self.growth = Counter(self.growth) + Counter(event.growth)

    def break_of(self, edit: Edited) -> PrefixBroken | None:
        """The break that an edit would have prevented, if the server has not seen that form yet.

        The engine compares with what it would have sent from the first turn on, and tells it as
        long as it would mend it. A form in which a server is shown the same text loses nothing.
        """
        if edit.stage != _OTHER_FORM:
            return None
        count = self.mended.get(edit.cause, 0)
        self.mended[edit.cause] = edit.count
        lost = edit.saved_tokens
        if edit.count <= count or not lost:
            return None
        cause: Cause = "text_moved" if edit.cause == "text_moved" else "message_reserialised"
        if self.newest_prompt_tokens is not None:  # system and tools stand before all messages
            lost = min(lost, max(0, self.newest_prompt_tokens - self.growth.get("head", 0)))
        detail = f"{edit.count} {'message' if edit.count == 1 else 'messages'} so far"
        return PrefixBroken(self.name, edit.index, cause, lost, detail)

    def copy(self) -> Conversation:
        return replace(self, growth=dict(self.growth), mended={})
