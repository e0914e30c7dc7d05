"""Which old turns leave the prompt for a record, when clearing does not make enough room?"""

from __future__ import annotations

from kvagent.stages.turn import Turn


def compact(turn: Turn) -> None:
    """(to come)"""
