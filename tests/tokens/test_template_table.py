"""Does the profile of each template say what was measured by hand?"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kvagent.tokens.conversations import RESULT
from kvagent.tokens.profile import TemplateProfile, profile_of
from kvagent.tokens.template import ChatTemplate

TEMPLATES = (
    "GLM-4.6",
    "HuggingFaceTB-SmolLM3-3B",
    "MiniMax-M2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen-Qwen3-0.6B",
    "Qwen3-Coder",
    "deepseek-ai-DeepSeek-V3.1",
    "ibm-granite-granite-3.3-2B-Instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "openai-gpt-oss-120b",
)

NO_CALLS = ("HuggingFaceTB-SmolLM3-3B", "ibm-granite-granite-3.3-2B-Instruct")
"""The table says that these render arguments as XML. They render no call at all."""


@cache
def profiled(file: Path) -> TemplateProfile:
    return profile_of(template_in(file))


def template_in(file: Path) -> ChatTemplate:
    return ChatTemplate(file.read_text(encoding="utf-8"), {"bos_token": "<s>", "eos_token": "</s>"})


def table_in(text: str) -> dict[str, dict[str, str]]:
    """The only table whose first column is ``template``: its rows by that column."""
    lines = iter(text.splitlines())
    columns = next(cells(line) for line in lines if line.startswith("|template|"))
    next(lines)
    rows = {}
    for line in lines:
        if not line.startswith("|"):
            break
        name, *values = cells(line)
        rows[name] = dict(zip(columns[1:], values, strict=True))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_cell(shared: Path, name: str) -> None:
    table = table_in((shared / "facts" / "servers.md").read_text(encoding="utf-8"))
    expected = table[name]
    if name in NO_CALLS:
        assert expected["args render"] == "XML/py-like"
        expected["args render"] = "not rendered"
    row = profiled(shared / "data" / "chat_templates" / f"{name}.jinja").row()
    assert row == expected


def test_no_template_is_left_out(shared: Path) -> None:
    assert {file.stem for file in (shared / "data" / "chat_templates").iterdir()} == {*TEMPLATES}


@pytest.mark.parametrize("name", NO_CALLS)
def test_a_template_that_renders_no_call(shared: Path, name: str) -> None:
    """The evidence for the exception: two calls that differ in all, and the very same prompt."""
    template = template_in(shared / "data" / "chat_templates" / f"{name}.jinja")

    def prompt(function: str, arguments: dict[str, str]) -> str:
        call = {"id": "1", "type": "function"}
        call["function"] = {"name": function, "arguments": arguments}  # type: ignore[assignment]
        return template.render(
            [
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "1", "content": RESULT},
            ]
        )

    one = prompt("get_weather", {"city": "Paris"})
    other = prompt("search", {"query": "trains to Rome"})
    assert one == other
    assert RESULT in one
    assert "get_weather" not in one
    hazard = profiled(shared / "data" / "chat_templates" / f"{name}.jinja").hazard("arguments")
    assert hazard is not None
    assert hazard.code == "ignored"
