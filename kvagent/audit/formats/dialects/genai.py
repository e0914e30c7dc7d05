"""What do the attributes of a span say of a call of a model?

The conventions changed: messages as one attribute in JSON, or with an attribute for each field of
each message (``gen_ai.prompt.0.role``); OpenInference and Vercel's AI SDK have names of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvagent.audit.formats.dialects import any_form
from kvagent.audit.formats.dialects.call import function
from kvagent.audit.formats.fields import either_way, first, mapping, name, objects, shown
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.transcript import Reported

_INPUTS = (
    "gen_ai.input.messages",
    "ai.prompt.messages",
    "gen_ai.prompt",
    "ai.prompt",
    "input.value",
)
_OUTPUTS = ("gen_ai.output.messages", "gen_ai.completion", "output.value")
_TOOLS = ("gen_ai.tool.definitions", "gen_ai.request.tools", "ai.prompt.tools")
_MODELS = ("gen_ai.request.model", "llm.model_name", "ai.model.id", "gen_ai.response.model")
_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "langfuse.session.id", "thread.id")

_PROMPT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.usage.prompt_tokens",
    "llm.token_count.prompt",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
)
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cached_tokens",
    "gen_ai.usage.details.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
)
_WRITTEN = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "gen_ai.usage.details.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_COMPLETION = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.usage.completion_tokens",
    "llm.token_count.completion",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_TOTAL = ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total")
_CALL = frozenset({"chat", "text_completion", "generate_content", "completion"})

# No call has more messages, and no message more calls.
_MOST = 1_000_000
_INDEXED = re.compile(r"(\d{1,7})\.(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model, as far as a span tells it."""

    messages: list[Mapping[str, Any]]
    tools: list[Mapping[str, Any]]
    replies: list[Mapping[str, Any]]
    reported: Reported
    model: str | None
    conversation: str | None


def is_call(attributes: Mapping[str, Any]) -> bool:
    """Whether a span is about one call of a model, and not about an agent's run or a tool's."""
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return operation in _CALL
    kind = attributes.get("openinference.span.kind") or attributes.get("traceloop.span.kind")
    if isinstance(kind, str):
        return kind == "LLM"
    if isinstance(attributes.get("ai.operationId"), str):
        return "ai.prompt.messages" in attributes
    return any(
        key.startswith(("gen_ai.prompt", "gen_ai.input.messages", "llm.input_messages."))
        for key in attributes
    )


def call_of(attributes: Mapping[str, Any], events: list[dict[str, Any]] | None = None) -> Call:
    """The call that a span is about; ``events`` are messages told beside it. Raises ``Broken``."""
    found = _messages(attributes, events or [])
    replies = _replies(attributes, events or [])
    return Call(
        found.messages,
        found.tools or list(_tools(attributes)),
        replies,
        either_way(
            *(first(attributes, keys) for keys in (_PROMPT, _CACHED, _WRITTEN, _COMPLETION, _TOTAL))
        ),
        name(first(attributes, _MODELS)),
        name(first(attributes, _CONVERSATIONS)),
    )


def tools_in(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools that attributes tell."""
    return _tools(attributes)


def _messages(attributes: Mapping[str, Any], events: list[dict[str, Any]]) -> any_form.Told:
    told = indexed(attributes, "gen_ai.prompt")
    if told:
        return any_form.told([_of_fields(fields) for fields in told])
    told = indexed(attributes, "llm.input_messages")
    if told:
        return any_form.told([_of_inference(fields) for fields in told])
    asked = [event for event in events if event["role"] != "choice"]
    if asked:
        return any_form.told(asked)
    for key in _INPUTS:
        if attributes.get(key) is not None:
            found = any_form.told(attributes[key])
            system = shown(any_form.unwrapped(attributes.get("gen_ai.system_instructions")))
            if system:
                found.messages.insert(0, {"role": "system", "content": system})
            return found
    raise Broken("is a call without its messages: their recording was off")


def _replies(
    attributes: Mapping[str, Any], events: list[dict[str, Any]]
) -> list[Mapping[str, Any]]:
    try:
        told = indexed(attributes, "gen_ai.completion")
        if told:
            return any_form.told([_of_fields(fields) for fields in told]).messages
        told = indexed(attributes, "llm.output_messages")
        if told:
            return any_form.told([_of_inference(fields) for fields in told]).messages
        choices = [{**event, "role": "assistant"} for event in events if event["role"] == "choice"]
        if choices:
            return any_form.told(choices).messages
        text, calls = attributes.get("ai.response.text"), attributes.get("ai.response.toolCalls")
        if text is not None or calls is not None:
            return [_of_vercel(text, calls)]
        for key in _OUTPUTS:
            if attributes.get(key) is not None:
                said = any_form.told(attributes[key]).messages
                return [message for message in said if message.get("role") == "assistant"]
    except Broken:
        pass
    return []


def _of_vercel(text: Any, calls: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"role": "assistant", "content": text if isinstance(text, str) else None}
    asked = [
        function(call.get("toolName"), first(call, ("args", "input")), call.get("toolCallId"))
        for call in objects(any_form.unwrapped(calls))
    ]
    if asked:
        made["tool_calls"] = asked
    return made


def _tools(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    for key in _TOOLS:
        found = any_form.tools_of(attributes.get(key))
        if found:
            return found
    told = indexed(attributes, "llm.request.functions")
    if told:
        return any_form.tools_of(told)
    told = indexed(attributes, "llm.tools")
    if told:
        return any_form.tools_of([fields.get("tool.json_schema") for fields in told])
    parameters = mapping(any_form.unwrapped(attributes.get("model_request_parameters")))
    return any_form.tools_of(parameters.get("function_tools")) + any_form.tools_of(
        parameters.get("output_tools")
    )


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The fields of each item of a list that is spread over attributes, in order."""
    start = f"{prefix}."
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(start) and (match := _INDEXED.fullmatch(key, len(start))):
            at = int(match[1])
            if at < _MOST:
                found.setdefault(at, {})[match[2]] = value
    return [found[at] for at in sorted(found)]


def _of_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A message of which each field is an attribute."""
    content = any_form.unwrapped(fields.get("content"))
    role = fields.get("role")
    made: dict[str, Any] = {
        "role": role if isinstance(role, str) else "user",
        # A result that is JSON is a text; content parts are a list.
        "content": content if isinstance(content, list) else fields.get("content"),
    }
    calls = [
        function(call.get("name"), call.get("arguments"), call.get("id"))
        for call in indexed(fields, "tool_calls")
    ]
    if calls:
        made["tool_calls"] = calls
    if "tool_call_id" in fields:
        made["tool_call_id"] = fields["tool_call_id"]
        if isinstance(content, list) and not all(isinstance(part, dict) for part in content):
            made["content"] = fields.get("content")
    return made


def _of_inference(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A message in OpenInference's names."""
    content = fields.get("message.content")
    contents = indexed(fields, "message.contents")
    if content is None and contents:
        content = [
            {"type": "text", "text": part.get("message_content.text") or ""} for part in contents
        ]
    role = fields.get("message.role")
    made: dict[str, Any] = {"role": role if isinstance(role, str) else "user", "content": content}
    calls = [
        function(
            call.get("tool_call.function.name"),
            call.get("tool_call.function.arguments"),
            call.get("tool_call.id"),
        )
        for call in indexed(fields, "message.tool_calls")
    ]
    if calls:
        made["tool_calls"] = calls
    if "message.tool_call_id" in fields:
        made["tool_call_id"] = fields["message.tool_call_id"]
    return made
