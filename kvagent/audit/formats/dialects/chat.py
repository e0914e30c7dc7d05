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
from kvagent.audit.formats.repeated import all_pass
from kvagent.audit.transcript import Reported
from kvagent.backends.usage import usage_of


def checked(messages: Any) -> list[Mapping[str, Any]]:
    """The list, if it is one of chat messages. Raises ``Broken``."""
    if not isinstance(messages, list):
        raise Broken('has no list of "messages"')
    if all_pass(messages, _are_modern):
        return messages
    for at, message in enumerate(messages):
        fault = _fault(message)
        if fault is not None:
            raise Broken(fault.format(at))
    return functions.modern(messages)


def _are_modern(messages: list[Any]) -> bool:
    """Whether all are chat messages, and none of them has functions."""
    return not any(
        _fault(message) or message["role"] == functions.ROLE or message.get(functions.CALL)
        for message in messages
    )


def _fault(message: Any) -> str | None:
    """Why something is no chat message, with a place for its number."""
    if not isinstance(message, dict):
        return "has no object as message {}"
    if not isinstance(message.get("role"), str):
        return "has a message {} without a role"
    calls = message.get("tool_calls")
    if calls and not _are_objects(calls):
        return "has tool_calls in message {} that are no list of objects"
    return None


def _are_objects(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, dict) for value in values)


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
    if declared is not None and not _are_objects(declared):
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
