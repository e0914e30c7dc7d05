"""What stands in the prompt now, message by message?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Standing:
    """A message behind the head, in the form in which it stands in the prompt."""

    index: int
    """Its place among the messages of the request, as the agent counts them."""
    came: Mapping[str, Any]
    """As the agent sends it."""
    sent: Mapping[str, Any]
    """As it stands: shortened on arrival or cleared, it may hold less."""
    tokens: int
    """Estimated tokens of ``sent``."""
    cleared: bool = False
    """Whether it was cleared in a turn before."""
    depth: int = 0
    """Its number in the conversation, from 1, if it was sent before; 0 for a new one."""
    before: tuple[Mapping[str, Any], ...] = ()
    """Messages in front of it that the agent never saw; they stay and go with it."""

    @property
    def role(self) -> str:
        return str(self.came["role"])
