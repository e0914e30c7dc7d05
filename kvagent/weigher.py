"""How many tokens will this take of the window?

Before a request goes out nobody knows. A general tokenizer counts, and what a server counted
afterwards corrects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvagent.backends import Usage
from kvagent.chat import shown
from kvagent.entry import Head
from kvagent.meter import Meter
from kvagent.stages import Turn
from kvagent.tokens import count_tokens

# What a chat template writes around a message.
_MESSAGE_TOKENS = 4
_HEADS = 64
# So many turns in the beginning are counted twice: by the general tokenizer and by the server.
_CALIBRATIONS = 8


class Weigher:
    """Estimates in the tokens of one engine's server."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._heads: dict[bytes, int] = {}

    def message(self, message: Mapping[str, Any]) -> int:
        """What a message takes of the prompt."""
        return _MESSAGE_TOKENS + self.text(shown(message))

    def text(self, text: str) -> int:
        """What a text takes of the prompt."""
        return int(count_tokens(text) * self._meter.scale)

    def head(self, head: Head) -> int:
        """What tools and system messages take; each head is counted once."""
        tokens = self._heads.get(head.key)
        if tokens is None:
            tokens = self._heads[head.key] = count_tokens(head_bytes(head).decode())
            while len(self._heads) > _HEADS:
                self._heads.pop(next(iter(self._heads)), None)
        return int(tokens * self._meter.scale)

    def calibrate(self, turn: Turn, usage: Usage) -> None:
        """Compare the estimates that decide about room with what the server counted."""
        known = turn.past is turn.tree.root or turn.past.facts is not None
        if usage.prompt_tokens is None or not turn.tail or not known or turn.revised:
            return
        weighed = all(fresh.weighed is not None for fresh in turn.tail)
        # Where no window is known nothing is decided by it, and counting costs milliseconds.
        if weighed or (turn.room is not None and self._meter.calibrated < _CALIBRATIONS):
            grown = usage.prompt_tokens - turn.past_tokens
            self._meter.calibrate(sum(map(turn.weight, turn.tail)), grown)


def head_bytes(head: Head) -> bytes:
    """System messages and tools as they were sent."""
    return b"".join((*head.system, head.tools or b""))
