"""What do the servers call their counts, their refusals and what they can do?

One file a server, and only there its field names and wordings; everything else in kvagent knows
the values that are exported here.
"""

from __future__ import annotations

from kvagent.backends import llamacpp, openai, vllm
from kvagent.backends.condition import condition, remedy
from kvagent.backends.crowding import crowded_out
from kvagent.backends.hints import hint_fields
from kvagent.backends.overflow import overflow_of
from kvagent.backends.probe import learn, probe
from kvagent.backends.prompt import PromptError
from kvagent.backends.usage import usage_of
from kvagent.backends.values import Condition, Fault, Fetch, Fetched, Overflow, Server, Usage, Wish

PROMPT_KEYS: frozenset[str] = openai.PROMPT_KEYS | vllm.PROMPT_KEYS | llamacpp.PROMPT_KEYS
"""Request keys, beside messages and tools, that shape the prompt or the cache key.

Each server's file says what a key of its own does.
"""

__all__ = [
    "PROMPT_KEYS",
    "Condition",
    "Fault",
    "Fetch",
    "Fetched",
    "Overflow",
    "PromptError",
    "Server",
    "Usage",
    "Wish",
    "condition",
    "crowded_out",
    "hint_fields",
    "learn",
    "overflow_of",
    "probe",
    "remedy",
    "usage_of",
]
