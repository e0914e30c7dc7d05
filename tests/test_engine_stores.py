"""Where do tests elsewhere find what an engine's memory weighs?"""

from __future__ import annotations

from tests.stores.engine.remembered import weight

__all__ = ["weight"]
