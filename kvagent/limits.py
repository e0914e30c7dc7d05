"""How long may a prompt be, as far as a server's refusals have taught it?"""

from __future__ import annotations

from collections import OrderedDict

from kvagent.backends import Overflow, Usage
from kvagent.fingerprint import digest
from kvagent.stages import Turn

# A refusal that names no number: this much of the prompt is tried next.
_SMALLER = 0.75
# A prompt that only grew cannot have fewer tokens than before, but for old reasoning that a
# template drops. So far below what is expected, its front was cut off.
_CUT = 0.6
# Without an earlier count there is only another tokenizer's; of Chinese text they differ so much.
_CUT_AT_FIRST = 0.4
_LONG = 2_000
_REFUSED = 256


class Limits:
    """Windows by model, and the requests that a server broke off."""

    def __init__(self) -> None:
        self._windows: dict[str, int] = {}
        self._refused: OrderedDict[bytes, int] = OrderedDict()

    def window(self, model: str, *said: int | None) -> int | None:
        """The least of what policy and server say and a refusal taught; None: nothing is known."""
        known = [window for window in (*said, self._windows.get(model)) if window is not None]
        return min(known, default=None)

    def of_request(self, raw: bytes) -> int | None:
        """What a request may take that was refused, or broken off, when it was sent before."""
        return self._refused.get(digest(raw)) if self._refused else None

    def refused(self, turn: Turn, overflow: Overflow) -> None:
        """Learn from a refusal what the request, and others like it, may take when sent again."""
        window, estimated, counted = overflow.window, turn.tokens, overflow.prompt_tokens
        if window is None:
            limit = int(_SMALLER * estimated)
        else:
            self._windows[turn.request.model] = window
            limit = window
            if counted is not None and counted > estimated:  # it was longer than thought
                limit = window * estimated // counted
        self._refused[digest(turn.request.raw)] = limit
        while len(self._refused) > _REFUSED:
            self._refused.popitem(last=False)
        return limit

    def cut(self, turn: Turn, expected: int, usage: Usage) -> bool:
        """Whether a server that answered has cut the front off the prompt, saying nothing.

        ``expected`` are the tokens that the prompt should have. What the server took is then
        taken for its window.
        """
        prompt = usage.prompt_tokens
        if prompt is None or expected < _LONG:
            return False
        facts = turn.past.facts
        first = facts is None or facts.prompt_tokens is None
        if prompt >= (_CUT_AT_FIRST if first else _CUT) * expected:
            return False
        self._windows[turn.request.model] = prompt + (usage.completion_tokens or 0)
        return True
