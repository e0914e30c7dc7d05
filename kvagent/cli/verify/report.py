"""How are predictions and reports told, to a person and to a program?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kvagent.cli.verify.run import Row


def as_json(rows: Sequence[Row], notes: Sequence[str]) -> dict[str, Any]:
    """``{"requests": N, "right": N, "naive_right": N, "rows": [{…}, …], "notes": […]}``."""
    return {
        "requests": len(rows),
        "right": sum(row.right for row in rows),
        "naive_right": sum(row.shared is not None and row.shared == row.reported for row in rows),
        "rows": [_row(row) for row in rows],
        "notes": list(notes),
    }


def _row(row: Row) -> dict[str, Any]:
    fields = {key: value for key, value in asdict(row).items() if key != "silent"}
    return {**fields, "right": row.right}


def render(rows: Sequence[Row], notes: Sequence[str]) -> RenderableType:
    """A line for each request, and what they come to."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("line", "prompt", "predicted", "reported", "longest prefix"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for row in rows:
        counts = (row.prompt_tokens, row.predicted, row.reported, row.shared)
        cells = ["–" if count is None else f"{count:,}" for count in counts]
        style = "" if row.right else "bold red"
        table.add_row(str(row.line), *cells, Text(_remark(row)), style=style)
    right = sum(row.right for row in rows)
    total = Text(f"{right} of {len(rows)} requests as predicted")
    total.stylize("bold green" if right == len(rows) else "bold red")
    return Group(table, *(Text(f"· {note}", style="dim") for note in notes), total)


_LOSSES = {
    "block": "only full blocks",
    "checkpoint": "no checkpoint there",
    "evicted": "evicted",
    "off": "cache not read",
    "slot": "not in this slot",
    "too long": "too long: refused",
    "whole_prompt": "all but the last",
}


def _remark(row: Row) -> str:
    if row.fault:
        return row.fault
    return _LOSSES.get(row.loss, row.loss) if row.right else "✗ differs"
