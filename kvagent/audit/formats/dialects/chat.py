"""What do a request to and an answer from OpenAI's chat completions hold?

It is the form in which everything else is told, so nothing is copied: the messages of the log are
the messages of the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvagent.audit.formats.dialects import functions
from kvagent.audit.formats.dialects.call import Answered, Asked, Dialect, others
from kvagent.audit.formats.fields import first, mapping, objects, tokens, told
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.transcript import Reported
from kvagent.backends.usage import usage_of


def checked(messages: Any) -> list[Mapping[str, Any]]:
    """The list, if it is one of chat messages. Raises ``Broken``."""
    if not isinstance(messages, list):
        raise Broken('has no list of "messages"')
    # Every message of every request comes by here: each question is one comprehension.
    try:
        roles = [message["role"] for message in messages]
        called = [message["tool_calls"] for message in messages if "tool_calls" in message]
    except (KeyError, TypeError, IndexError):
        raise Broken(_fault(messages)) from None
    if not set(map(type, roles)) <= {str}:
        raise Broken(_fault(messages))
    for calls in called:
        if calls and not (type(calls) is list and all(type(call) is dict for call in calls)):
            raise Broken(_fault(messages))
    if functions.ROLE in roles or any("function_call" in message for message in messages):
        return functions.modern(messages)
    return messages


def _fault(messages: list[Any]) -> str:
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            return f"has no object as message {at}"
        if not isinstance(message.get("role"), str):
            return f"has a message {at} without a role"
        calls = message.get("tool_calls")
        if calls and not (isinstance(calls, list) and len(objects(calls)) == len(calls)):
            return f"has tool_calls in message {at} that are no list of objects"
    return "has no chat messages"


def _asks(body: Mapping[str, Any]) -> bool:
    messages = body.get("messages")
    return isinstance(messages, list) and any(
        isinstance(message, dict) and "role" in message for message in messages[:3]
    )


def _asked(body: Mapping[str, Any]) -> Asked:
    messages = checked(body.get("messages"))
    if not messages:
        raise Broken('has an empty list of "messages"')
    declared = body.get("tools")
    if declared is not None and len(objects(declared)) != (
        len(declared) if isinstance(declared, list) else -1
    ):
        raise Broken("has tools that are no list of objects")
    tools: list[Any] = declared or []
    older = body.get("functions")
    if older and not tools:
        tools = functions.modern_tools(older)
    return Asked(messages, tools, others(body, "messages", "tools", "functions"))


def _answers(body: Mapping[str, Any]) -> bool:
    return isinstance(body.get("choices"), list)


def _answered(body: Mapping[str, Any]) -> Answered:
    replies = []
    for choice in objects(body.get("choices")):
        try:
            (message,) = checked([choice.get("message")])
        except Broken:
            continue
        replies.append(message)
    error = told(body.get("error"))
    return Answered(replies, reported(body), error, body.get("created"))


def reported(body: Mapping[str, Any]) -> Reported:
    """The counts of an answer, or of any object with ``usage``."""
    usage = mapping(body.get("usage"))
    details = mapping(usage.get("prompt_tokens_details"))
    said = usage_of(body)
    # Gateways tell what Anthropic said under its own names; DeepSeek has names of its own.
    cached = said.cached_tokens
    if cached is None:
        cached = tokens(first(usage, ("cache_read_input_tokens", "prompt_cache_hit_tokens")))
    written = first(details, ("cache_write_tokens", "cache_creation_tokens"))
    if written is None:
        written = usage.get("cache_creation_input_tokens")
    return Reported(
        tokens(said.prompt_tokens),
        tokens(cached),
        tokens(said.completion_tokens),
        tokens(written),
    )


def _joined(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The chunks of a stream as one answer."""
    from kvagent.chat import ChatReply

    if not any(_answers(event) for event in events):
        return None
    from kvagent.audit.formats.json_text import dumped

    stream = "".join(f"data: {dumped(event)}\n\n" for event in events)
    reply = ChatReply.parse_stream(stream.encode("utf-8", "replace"))
    return {
        **reply.counts,
        "choices": [{"message": message} for message in reply.messages],
        "created": next((event["created"] for event in events if event.get("created")), None),
        "error": reply.error,
    }


DIALECT = Dialect("openai_chat", "messages", _asks, _asked, _answers, _answered, _joined)
