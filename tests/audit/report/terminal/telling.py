"""What does a terminal show of a report, line by line?"""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import strategies as st
from rich.console import Console

from kvagent.audit.report.terminal import show
from kvagent.audit.session import Report, WhatIf
from kvagent.audit.turns import Totals
from tests.audit.report.reports import session

ENCODINGS = st.sampled_from(["utf-8", "ascii", "latin-1", "cp437"])


class _File(io.StringIO):
    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def told(
    report: Report, width: int = 80, *, details: bool = False, encoding: str = "utf-8"
) -> list[str]:
    file = _File(encoding)
    show(report, Console(file=file, width=width, color_system=None), details=details)
    return file.getvalue().split("\n")[:-1]


def one(**more: object) -> Report:
    return Report([session(**more)])  # type: ignore[arg-type]


def sent(**more: object) -> WhatIf:
    """Two requests through kvagent."""
    sides = Totals(2, 300, 96, 50, 200), Totals(2, 200, 150, 0, 100)
    known = WhatIf("the default policy", *sides, 2, 154, None, None, "", 1, 0, [("pin_head", 2)])
    return replace(known, **more)  # type: ignore[arg-type]
