"""kvagent for LangChain: agents whose prompts stay cached, and a callback that measures it."""

from __future__ import annotations
