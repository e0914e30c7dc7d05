"""What did a cache give for one prompt, and why not more?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Loss = Literal["", "block", "whole_prompt", "evicted", "slot", "checkpoint", "off"]
"""Why a cache gave less than the longest prefix that was ever computed there.

``block``: only full blocks count. ``whole_prompt``: the last token is always computed. ``evicted``:
it was there and made room for others. ``slot``: the tokens are in a slot that was not chosen, or
that another conversation took. ``checkpoint``: the state of sliding-window or recurrent layers
cannot be rolled back to there. ``off``: the request or the server does not read the cache.
"""


class PromptTooLong(ValueError):
    """The server refuses the prompt: with an answer it does not fit the window."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Tokens that need no prefill, and what stood against more."""

    prompt_tokens: int
    cached_tokens: int
    shared_tokens: int
    """The longest prefix that this prompt shares with anything computed before: what a cache
    without an end, exact to the token, would give. Such a cache is the naive model."""
    loss: Loss = ""
    """Why ``cached_tokens`` is less than ``shared_tokens``; empty where it is not."""
