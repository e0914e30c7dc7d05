"""What does llama.cpp's server make of a request before its chat template sees it?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvagent.backends.prompt import Dialect, PromptError, Template, TemplateInput
from kvagent.backends.wire import mapping


def prepare(body: Mapping[str, Any], template: Template) -> TemplateInput:
    """The messages, tools and variables that llama.cpp renders ``template`` with.

    Raises:
        PromptError: llama.cpp refuses such a request.
    """
    messages = [_message(message) for message in body["messages"]]
    tools = [_tool(tool) for tool in body.get("tools") or []]
    kwargs = mapping(body.get("chat_template_kwargs"))
    return TemplateInput(messages, tools or None, variables={"enable_thinking": True, **kwargs})


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    made: dict[str, Any] = {"role": message["role"], "content": content or ""}
    for key in ("reasoning_content", "name", "tool_call_id"):
        if message.get(key):
            made[key] = message[key]
    if message.get("tool_calls"):
        made["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return made


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError as error:
        raise PromptError(f"llama.cpp refuses arguments that are no JSON: {error}") from error
    return {
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
        "id": call.get("id"),
    }


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    return {
        "type": "function",
        "function": {
            "name": function["name"],
            "description": function.get("description") or "",
            "parameters": function.get("parameters") or {},
        },
    }


LLAMACPP = Dialect("llama.cpp", prepare)
