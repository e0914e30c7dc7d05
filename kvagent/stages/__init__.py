"""What may be done to a request on its way out? One stage a file, each a callable on a ``Turn``."""

from __future__ import annotations

from kvagent.stages.clear import clear, squeeze
from kvagent.stages.compact import compact
from kvagent.stages.echo import echo
from kvagent.stages.evict import evict
from kvagent.stages.pin_head import pin_head
from kvagent.stages.turn import Edit, Fresh, Stage, Turn

DEFAULT_STAGES: tuple[Stage, ...] = (pin_head, echo, evict, clear, compact, squeeze)
"""In this order."""

__all__ = [
    "DEFAULT_STAGES",
    "Edit",
    "Fresh",
    "Stage",
    "Turn",
    "clear",
    "compact",
    "echo",
    "evict",
    "pin_head",
    "squeeze",
]
