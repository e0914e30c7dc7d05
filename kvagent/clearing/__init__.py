"""What is forgotten when a prompt must get smaller?"""

from __future__ import annotations

from kvagent.clearing.gist import gist
from kvagent.clearing.planning import Cleared, clearable, plan

__all__ = ["Cleared", "clearable", "gist", "plan"]
