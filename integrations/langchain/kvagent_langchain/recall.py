"""How does an agent itself give its model back what was shortened?

For ``Recall(answer="agent")``: a tool like any other of the agent, whose calls and results its
state shows. It looks into the memory that the same state holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from langchain.tools import ToolRuntime
from langchain_core.tools import BaseTool, StructuredTool

from kvagent.policy import Recall
from kvagent.recall import RECALL, TOOL, exchange
from kvagent.tokens import count_tokens


def recall_tool(policy: Recall, look_up: Callable[..., str]) -> BaseTool:
    """The tool ``kvagent_recall``; ``look_up`` is ``Engine.recall`` with the state before it."""
    function = TOOL["function"]

    def recall(runtime: ToolRuntime, **asked: Any) -> str:
        def original(handle: str, **part: str) -> str:
            return look_up(runtime.state, handle, **part)

        arguments = orjson.dumps(asked, default=str).decode()
        call = {"id": "", "function": {"name": RECALL, "arguments": arguments}}
        *_, told = exchange({"tool_calls": [call]}, original, _room(policy.max_tokens))
        return str(told["content"])

    return StructuredTool(
        name=RECALL,
        description=function["description"],
        args_schema=function["parameters"],
        func=recall,
    )


def _room(most: int) -> Callable[[str], int]:
    """How many characters of a text may be told: of so many tokens at most."""

    def room(text: str) -> int:
        tokens = count_tokens(text)
        return len(text) if tokens <= most else len(text) * most // tokens

    return room
