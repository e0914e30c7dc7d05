"""What does ChatOpenAI send for a LangChain message?

Over chat completions, key by key in the same order, so that the bytes are equal too. What ChatOpenAI
refuses to send stands as it is: another model may take it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from kvagent.chat import ChatReply
from kvagent.fingerprint import meaning
from kvagent_langchain import parts

REASONING = ("reasoning_content", "reasoning")
"""Where servers put it in a reply, and where ``additional_kwargs`` of an AIMessage keep it."""

_CALL_KEYS = ("id", "type", "function")
# What a tool says beside its schema, and since which langchain-openai that goes out.
_EXTRAS = {"defer_loading": (1, 1, 11), "async": (1, 6, 1)}


def message(source: BaseMessage) -> dict[str, Any]:
    """The wire form of a message: a dict of its own, whose values are shared with the message.

    ``TypeError`` for what is no message to a model (``RemoveMessage``), and for arguments of a call
    that are no JSON. ChatOpenAI says ``developer`` to a model called o1, o3 and so on, where this
    says ``system``.
    """
    content = parts.content(source)
    if isinstance(source, ToolMessage):
        return {"content": content, "role": "tool", "tool_call_id": source.tool_call_id}
    wire: dict[str, Any] = {"content": content}
    name = source.name or source.additional_kwargs.get("name")
    if name is not None:
        wire["name"] = name
    wire["role"] = _role(source)
    if isinstance(source, AIMessage):
        calls = _calls(source)
        if calls:
            wire |= calls
            wire["content"] = content or None
        audio = _audio(source)
        if audio:
            wire["audio"] = audio
    return wire


def as_generated(source: BaseMessage, wire: dict[str, Any]) -> dict[str, Any]:
    """The wire form with what the server generated, as far as the message keeps it.

    That is the text of the arguments, in ``additional_kwargs["tool_calls"]``, which counts as long
    as it means what ``tool_calls`` say, and the reasoning. Else the form as it is.
    """
    if not isinstance(source, AIMessage):
        return wire
    kept: dict[str, Any] = {}
    raw = source.additional_kwargs.get("tool_calls")
    if raw and not (source.tool_calls or source.invalid_tool_calls):
        # Somebody took the calls out: LangChain reads them whenever it makes a message.
        wire = {**wire, "content": wire["content"] or ""}
        del wire["tool_calls"]
    elif raw and _same_calls(raw, source, wire.get("tool_calls") or ()):
        kept["tool_calls"] = [_cleaned(call) for call in raw]
    for key in REASONING:
        text = source.additional_kwargs.get(key)
        if text and isinstance(text, str):
            kept[key] = text
    return {**wire, **kept} if kept else wire


def tools(
    tools: Sequence[BaseTool | Mapping[str, Any] | type | Callable[..., Any]],
    *,
    strict: bool | None = None,
) -> list[dict[str, Any]]:
    """What goes out for the tools that are bound to ChatOpenAI."""
    sent = []
    for tool in tools:
        wire = convert_to_openai_tool(tool, strict=strict)
        extras = tool.extras if isinstance(tool, BaseTool) else None
        for key, since in _EXTRAS.items():
            if isinstance(extras, dict) and key in extras and parts.sends(since):
                wire[key] = extras[key]
        sent.append(wire)
    return sent


def reply(answer: AIMessage, *, as_generated: bool) -> ChatReply:
    """A model's answer, as kvagent's engine takes it.

    Args:
        answer: the whole message, chunks added up.
        as_generated: whether it goes back to the server with what the server generated.
    """
    wire = message(answer)
    told = answer.response_metadata
    counts: dict[str, Any] = {}
    if answer.usage_metadata is not None:
        counts["usage"] = usage(answer.usage_metadata)
    if isinstance(told.get("timings"), Mapping):
        counts["timings"] = told["timings"]
    model = told.get("model_name") or told.get("model")
    if isinstance(model, str):
        counts["model"] = model
    return ChatReply(
        messages=(_with_generated(answer, wire) if as_generated else wire,),
        counts=counts,
        complete=not _cut_off(told),
    )


_with_generated = as_generated  # which an argument of that name hides


def usage(told: UsageMetadata) -> dict[str, Any]:
    """LangChain's counts in the words of OpenAI; what is not known is left out.

    No prompt is empty: there LangChain has 0 where the server said nothing.
    """
    counted: dict[str, Any] = {}
    if told["input_tokens"]:
        counted["prompt_tokens"] = told["input_tokens"]
    counted["completion_tokens"] = told["output_tokens"]
    counted["total_tokens"] = told["total_tokens"]
    details: Mapping[str, Any] = told.get("input_token_details") or {}
    # OpenAI's tiers of service have their name in front: priority_cache_read.
    cached = [count for key, count in details.items() if key.endswith("cache_read")]
    if cached and None not in cached:
        counted["prompt_tokens_details"] = {"cached_tokens": sum(cached)}
    return counted


def _role(message: BaseMessage) -> str:
    match message:
        case ChatMessage():
            return message.role
        case HumanMessage():
            return "user"
        case AIMessage():
            return "assistant"
        case SystemMessage():
            return str(message.additional_kwargs.get("__openai_role__", "system"))
        case FunctionMessage():
            return "function"
    raise TypeError(f"a {type(message).__name__} is not sent to a model")


def _calls(message: AIMessage) -> dict[str, Any]:
    """The calls under the key that they go under."""
    if message.tool_calls or message.invalid_tool_calls:
        valid = [
            call(each["id"], each["name"], json.dumps(each["args"], ensure_ascii=False))
            for each in message.tool_calls
        ]
        invalid = [call(c["id"], c["name"], c["args"]) for c in message.invalid_tool_calls]
        return {"tool_calls": valid + invalid}
    given = message.additional_kwargs
    if "tool_calls" in given:
        return {"tool_calls": [_cleaned(each) for each in given["tool_calls"]]}
    if "function_call" in given:
        return {"function_call": given["function_call"]}
    return {}


def call(id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    """A call on the wire."""
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


def _cleaned(call: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key in _CALL_KEYS}


def _same_calls(raw: Any, message: AIMessage, sent: Sequence[dict[str, Any]]) -> bool:
    """Whether LangChain made the calls that are sent of the raw ones.

    It puts the calls that it could not read behind all others.
    """
    if not isinstance(raw, list) or len(raw) != len(sent):
        return False
    try:
        said = [_redumped(each) for each in raw]
        if said == sent:
            return True
        meanings = [_meaning(each) for each in said]
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    wanted = [_meaning(each) for each in sent]
    valid = wanted[: len(message.tool_calls)]
    return sorted(meanings, key=lambda one: one not in valid) == wanted


def _redumped(call: Mapping[str, Any]) -> dict[str, Any]:
    """A raw call as it is sent once LangChain has read it."""
    function = call["function"]
    arguments = function["arguments"]
    try:  # LangChain lets control characters pass, and takes nothing for no arguments
        value = (json.loads(arguments, strict=False) if arguments else None) or {}
        arguments = json.dumps(value, ensure_ascii=False)
    except ValueError:
        pass
    return {**call, "function": {**function, "arguments": arguments}}


def _meaning(call: Mapping[str, Any]) -> bytes:
    return meaning({"tool_calls": [call]})


def _audio(message: AIMessage) -> Any:
    """A spoken answer goes back as its id."""
    blocks = message.content if isinstance(message.content, list) else ()
    ids = [
        block["id"]
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "audio" and block.get("id")
    ]
    if ids:
        return {"id": ids[-1]}
    given = message.additional_kwargs.get("audio")
    return {"id": given["id"]} if given and "id" in given else given


def _cut_off(told: Mapping[str, Any]) -> bool:
    """Whether the stream of an answer ended before its end: only ChatOpenAI surely says when.

    Over chat completions it tells why the answer ended, over responses how it stands with it.
    """
    if told.get("model_provider") != "openai":
        return False
    return told.get("finish_reason") is None and told.get("status") is None
