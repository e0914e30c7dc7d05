"""Where are the builders that test_bill.py takes from here? In ``recall/asking.py``."""

from __future__ import annotations

from tests.recall.asking import FINAL, TOOLS, asks, handle_in, history

__all__ = ["FINAL", "TOOLS", "asks", "handle_in", "history"]
