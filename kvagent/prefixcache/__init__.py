"""What will a server take from its cache for this prompt?

Simulators of vLLM's blocks and llama.cpp's slots, token for token. Pure: no clock, no network, no
text; prompts are sequences of token ids.
"""

from __future__ import annotations

from kvagent.prefixcache.blocks import BlockCache
from kvagent.prefixcache.hit import Hit, Loss, PromptTooLong
from kvagent.prefixcache.memory import Layout
from kvagent.prefixcache.slots import SlotCache
from kvagent.prefixcache.traces import Trace, TraceError

__all__ = [
    "BlockCache",
    "Hit",
    "Layout",
    "Loss",
    "PromptTooLong",
    "SlotCache",
    "Trace",
    "TraceError",
]
