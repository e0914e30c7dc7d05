"""What did the server prefill, and what would it have prefilled without kvagent?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Lock

from kvagent.backends import Usage
from kvagent.events import Edited, Event

_KEEP_THE_PREFIX = frozenset(("echo", "pin_head", "replay"))


@dataclass(frozen=True, slots=True)
class Bill:
    """Tokens of prefill, over all answered requests of an engine.

    ``prefilled_tokens`` are the server's own counts, where it says how many were cached; the
    rest are estimates.
    """

    requests: int
    prefilled_tokens: int
    """What the server computed for the agent's requests."""
    own_prefilled_tokens: int
    """And for kvagent's own: summaries, and texts that the model asked for."""
    own_completion_tokens: int
    without_tokens: int
    """About what it would have computed for the requests as the agent sent them, with those before
    in its cache as the agent sent those; where that is not known, rather too little."""
    freed_tokens: int
    """How much shorter prompts became by what was shortened, cleared and compacted."""
    edit_cost_tokens: int
    """Cached tokens that were prefilled again because something before them was edited."""

    @property
    def saved_tokens(self) -> int:
        """Prefill spared, kvagent's own calls counted against it; negative where it cost more."""
        return self.without_tokens - self.prefilled_tokens - self.own_prefilled_tokens


@dataclass(slots=True)
class Account:
    """Adds a bill up; safe to use from several threads."""

    requests: int = 0
    prefilled: int = 0
    own_prefilled: int = 0
    own_completion: int = 0
    without: int = 0
    freed: int = 0
    edit_cost: int = 0
    _lock: Lock = field(default_factory=Lock)

    def request(self, prefilled: int, without: int, freed: int, edit_cost: int) -> None:
        """A request of the agent that was answered."""
        with self._lock:
            self.requests += 1
            self.prefilled += prefilled
            self.without += without
            self.freed += freed
            self.edit_cost += edit_cost

    def own(self, usage: Usage) -> None:
        """A call that kvagent made itself."""
        with self._lock:
            self.own_prefilled += max(0, (usage.prompt_tokens or 0) - (usage.cached_tokens or 0))
            self.own_completion += usage.completion_tokens or 0

    def bill(self) -> Bill:
        """The sums so far."""
        with self._lock:
            return Bill(
                self.requests,
                self.prefilled,
                self.own_prefilled,
                self.own_completion,
                self.without,
                self.freed,
                self.edit_cost,
            )


def saved_tokens(events: Iterable[Event], kept_tokens: int = 0) -> int:
    """Estimated prefill that one request was spared.

    What keeps the prefix saves what follows it, so several such edits of a request save the same
    tokens; what makes a message shorter saves its own. ``kept_tokens`` are those that the prefix
    kept where no edit of this request says so: an agent that goes back to the form that was sent
    changes its own prompt, too, and there is nothing to edit.
    """
    edits = [event for event in events if isinstance(event, Edited)]
    kept = [edit.saved_tokens for edit in edits if edit.stage in _KEEP_THE_PREFIX]
    return max(kept_tokens, *kept, 0) + sum(
        edit.saved_tokens for edit in edits if edit.stage not in _KEEP_THE_PREFIX
    )
