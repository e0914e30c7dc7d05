"""Which file was touched, and how?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal["read", "wrote", "edited", "deleted"]


@dataclass(frozen=True, slots=True)
class Touch:
    """One call's effect on one file; ``first`` and ``last`` are lines, both None for all of it."""

    path: str
    how: How
    first: int | None = None
    last: int | None = None
