"""What must a format be able to do?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kvagent.audit.formats.contents import Contents
from kvagent.audit.transcript import Item


@dataclass(frozen=True, slots=True)
class Format:
    """One way in which sessions or requests are written down."""

    name: str
    """As in ``--from NAME``."""
    title: str
    """What it is, in a few words."""
    claims: Callable[[Contents], bool]
    """Whether a file looks like it. Never raises."""
    read: Callable[[Contents], Iterator[Item]]
    """What is in the file. What cannot be read comes as ``Unreadable``; never raises."""
