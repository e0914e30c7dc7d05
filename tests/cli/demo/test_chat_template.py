"""Does our chat template keep the prefix when messages only grow?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent.cli.demo import tools
from kvagent.cli.demo.server import CHAT_TEMPLATE

CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " What is here?\n"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"function": {"name": "list_files", "arguments": {"limit": 3, "folder": "."}}},
            {"function": {"name": "git_log", "arguments": '{"limit":1}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "a.py\nb.py\n"},
    {"role": "tool", "tool_call_id": "2", "content": ""},
    {"role": "assistant", "content": "Two files.\n"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "Read "}, {"type": "text", "text": "a.py"}],
    },
    {
        "role": "assistant",
        "content": "I will.",
        "tool_calls": [{"function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}],
    },
    {"role": "tool", "tool_call_id": "3", "content": "<b>&</b>"},
    {"role": "assistant", "content": "Done."},
]


def rendered(messages: list[dict[str, Any]], *, answer: bool = True, **names: Any) -> str:
    jinja2 = pytest.importorskip("jinja2")
    environment = jinja2.Environment()
    environment.filters["tojson"] = json.dumps  # as servers do; jinja2's own sorts and escapes
    template = environment.from_string(CHAT_TEMPLATE.read_text(encoding="utf-8"))
    text: str = template.render(messages=messages, add_generation_prompt=answer, **names)
    return text


@pytest.mark.parametrize("with_tools", [True, False])
@pytest.mark.parametrize("with_system", [True, False])
def test_a_prompt_and_its_answer_begin_the_next_prompt(
    *, with_tools: bool, with_system: bool
) -> None:
    messages = CONVERSATION[0 if with_system else 1 :]
    offered = tools.DEFINITIONS if with_tools else None
    for index, message in enumerate(messages[:-1]):
        following = messages[index + 1]
        if following["role"] != "assistant":
            continue
        before = rendered(messages[: index + 1], tools=offered)
        after = rendered(messages[: index + 3], tools=offered)
        assert after.startswith(before + (following["content"] or "")), message


def test_the_tools_stand_in_the_system_turn() -> None:
    text = rendered(CONVERSATION[:2], tools=tools.DEFINITIONS)
    head, _, rest = text.partition("<|im_end|>")
    assert head.startswith("<|im_start|>system\nBe brief.\n\n# Tools")
    assert head.count('"type": "function"') == len(tools.DEFINITIONS)
    assert "function" not in rest


def test_the_template_trims_nothing() -> None:
    text = rendered(CONVERSATION)
    assert "<|im_start|>user\n What is here?\n<|im_end|>" in text
    assert "Two files.\n<|im_end|>" in text
    assert '{"name": "git_log", "arguments": {"limit":1}}' in text


def test_the_template_prints_no_date() -> None:
    assert not {"date_string", "datetime", "strftime_now"} & set(CHAT_TEMPLATE.read_text().split())
