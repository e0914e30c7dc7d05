"""Keeps an agent's prompt, and the server's KV cache of it, clean."""

from __future__ import annotations

from kvagent.adapters import wrap
from kvagent.bill import Bill
from kvagent.engine import Engine
from kvagent.events import (
    Bypassed,
    CacheMissed,
    Edited,
    Event,
    Overflowed,
    PrefixBroken,
    TurnFinished,
    WindowFilling,
)
from kvagent.policy import (
    KV,
    Clear,
    Compact,
    Echo,
    Evict,
    Fraction,
    Hints,
    Mend,
    PinHead,
    Policy,
    Recall,
    Tokens,
    Volatile,
)
from kvagent.session import session
from kvagent.stages import DEFAULT_STAGES, Edit, Fresh, Stage, Turn
from kvagent.stores import MemoryStore, Store
from kvagent.volatile import volatile

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_STAGES",
    "KV",
    "Bill",
    "Bypassed",
    "CacheMissed",
    "Clear",
    "Compact",
    "Echo",
    "Edit",
    "Edited",
    "Engine",
    "Event",
    "Evict",
    "Fraction",
    "Fresh",
    "Hints",
    "MemoryStore",
    "Mend",
    "Overflowed",
    "PinHead",
    "Policy",
    "PrefixBroken",
    "Recall",
    "Stage",
    "Store",
    "Tokens",
    "Turn",
    "TurnFinished",
    "Volatile",
    "WindowFilling",
    "session",
    "volatile",
    "wrap",
]
