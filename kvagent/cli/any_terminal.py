"""What if a terminal lacks a character?"""

from __future__ import annotations

import sys
from io import TextIOWrapper

from rich.console import Console


def any_terminal() -> Console:
    """A console on standard output, with a question mark for what its encoding does not have."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    return Console()


def times(text: str, console: Console) -> str:
    """``text`` with a multiplication sign that the console has."""
    return text.replace("×", "*") if console.options.ascii_only else text
