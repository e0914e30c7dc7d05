"""Is a tool what ChatOpenAI sends of it, byte for byte?"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, Tool, tool
from pydantic import BaseModel, Field

from kvagent_langchain import wire

from .sent import Sent, _of, dumped


class Read(BaseModel):
    """Reads a file."""

    path: str = Field(description="which")
    lines: list[int] | None = None


@tool
def bash(command: str, timeout: int = 5) -> str:
    """Runs a command."""
    return command


def search(query: str) -> str:
    """Looks for something.

    Args:
        query: what
    """
    return query


def extra(**extras: Any) -> BaseTool:
    return StructuredTool.from_function(search, extras=extras)


TOOLS: dict[str, Any] = {
    "a tool": bash,
    "a pydantic class": Read,
    "a function": search,
    "a tool of one text": Tool(name="say", description="Says it.", func=str),
    "OpenAI's form": {"type": "function", "function": {"name": "f", "parameters": {}}},
    "a bare function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
    "a schema": {"title": "T", "description": "d", "type": "object", "properties": {}},
    "Anthropic's form": {"name": "f", "description": "d", "input_schema": {"type": "object"}},
    "loaded later": extra(defer_loading=True),
    "beside others": extra(**{"async": True, "other": 1}),
}


@pytest.mark.parametrize("kind", TOOLS)
@pytest.mark.parametrize("strict", [None, True])
def test_each_kind_of_tool_is_sent_as_kvagent_says(
    sent: Sent, kind: str, strict: bool | None
) -> None:
    given = TOOLS[kind]
    before = deepcopy(given) if isinstance(given, dict) else None
    sent.model.bind_tools([given], strict=strict).invoke("hello")
    assert dumped(wire.tools([given], strict=strict)) == _of(sent.body, "tools")
    assert before is None or given == before


def test_all_tools_are_sent_in_their_order(sent: Sent) -> None:
    sent.model.bind_tools(list(TOOLS.values())).invoke("hello")
    assert dumped(wire.tools(list(TOOLS.values()))) == _of(sent.body, "tools")
