"""What do a request to and an answer from OpenAI's Responses API hold?

A conversation is a list of items: messages, what the model thought, its calls, their results. Items
that the model made one after the other are one message of the assistant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvagent.audit.formats.dialects.call import (
    Answered,
    Asked,
    Dialect,
    function,
    others,
    plain,
    tool,
)
from kvagent.audit.formats.fields import items, mapping, objects, shown, string, tokens, told
from kvagent.audit.formats.json_text import Broken, dumped
from kvagent.audit.transcript import Reported

# Tuples, since what is looked for in them may be anything that JSON has.
CALLS = ("function_call", "custom_tool_call", "local_shell_call", "mcp_call")
RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
# What the model did at the maker's: it is part of its message, and has no text of its own.
_AT_THE_MAKERS = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "tool_search_call",
    "mcp_list_tools",
    "mcp_approval_request",
)
_ENCRYPTED = ("compaction", "compaction_summary", "context_compaction")


def made(item: Mapping[str, Any]) -> bool:
    """Whether the model made this item."""
    kind = item.get("type")
    if kind in (None, "message"):
        return item.get("role") == "assistant"
    return kind == "reasoning" or kind in CALLS or kind in _AT_THE_MAKERS


class Chat:
    """Messages in OpenAI's chat form while items come in."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._open = False

    def part(self) -> None:
        """What the model makes next is a message of its own."""
        self._open = False

    def add(self, item: Any) -> None:
        """Take the next item. Raises ``Broken``."""
        if isinstance(item, str):
            item = {"role": "user", "content": item}
        if not isinstance(item, dict):
            raise Broken("has an item that is no object")
        kind = item.get("type")
        if made(item):
            self._made(kind, item)
        elif kind in (None, "message"):
            role = item.get("role")
            if not isinstance(role, str):
                raise Broken("has a message without a role")
            self.messages.append({"role": role, "content": _content(item.get("content"))})
        elif kind in RESULTS:
            self.messages.append(
                {
                    "role": "tool",
                    "tool_call_id": item.get("call_id"),
                    "content": _content(item.get("output")),
                }
            )
        elif kind in _ENCRYPTED:
            # Earlier turns in a form that only the maker reads.
            text = string(item.get("encrypted_content")) or shown(item)
            self.messages.append({"role": "user", "content": text})

    def _made(self, kind: Any, item: dict[str, Any]) -> None:
        if self._open and self.messages[-1]["role"] == "assistant":
            message = self.messages[-1]
        else:
            message = {"role": "assistant", "content": None}
            self.messages.append(message)
            self._open = True
        if kind in (None, "message"):
            text = shown(item.get("content"))
            if text:
                before = message["content"]
                message["content"] = f"{before}\n{text}" if before else text
        elif kind == "reasoning":
            text = shown(item.get("content")) or shown(item.get("summary"))
            if text:
                before = message.get("reasoning_content")
                message["reasoning_content"] = f"{before}\n{text}" if before else text
        elif kind in CALLS:
            message.setdefault("tool_calls", []).append(_call(item))


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    given = item.get("arguments")
    if not isinstance(given, str):
        given = item.get("input", item.get("action", given))
        # A custom tool takes any text, where OpenAI's chat form has JSON.
        given = dumped({"input": given} if isinstance(given, str) else given or {})
    return function(item.get("name") or item.get("type"), given, item.get("call_id"))


def _content(content: Any) -> Any:
    """Content in OpenAI's chat form."""
    if not isinstance(content, list):
        return shown(content)
    parts: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, dict) and part.get("type") == "input_image":
            parts.append({"type": "image_url", "image_url": {"url": part.get("image_url")}})
        else:
            parts.append({"type": "text", "text": shown(part)})
    return plain(parts)


def chat(given: Any) -> list[dict[str, Any]]:
    """``input`` in OpenAI's chat form. Raises ``Broken``."""
    if not isinstance(given, str | list):
        raise Broken('has neither a text nor a list as "input"')
    made = Chat()
    for item in [given] if isinstance(given, str) else given:
        made.add(item)
    return made.messages


def tools_of(tools: Any) -> list[dict[str, Any]]:
    """Tools in OpenAI's chat form; those that run at the maker's have a name only."""
    return [
        each
        if "function" in each
        else tool(
            each.get("name") or each.get("type"), each.get("description"), each.get("parameters")
        )
        for each in objects(tools)
    ]


def speaks(given: Any) -> bool:
    """Whether a list has items that only this API has."""
    return any(
        item.get("type") in CALLS or item.get("type") in RESULTS or item.get("type") == "reasoning"
        for item in objects(given)
        if isinstance(item.get("type"), str)
    )


def _asks(body: Mapping[str, Any]) -> bool:
    given = body.get("input")
    return "messages" not in body and (
        (isinstance(given, str) and ("model" in body or "instructions" in body))
        or (
            isinstance(given, list)
            and bool(given)
            and all(
                isinstance(item, str)
                or (isinstance(item, dict) and bool({"type", "role"} & set(item)))
                for item in given[:3]
            )
        )
    )


def _asked(body: Mapping[str, Any]) -> Asked:
    messages = chat(body.get("input"))
    instructions = shown(body.get("instructions"))
    if instructions:
        messages.insert(0, {"role": "system", "content": instructions})
    if not messages:
        raise Broken('has an empty "input"')
    return Asked(
        messages,
        tools_of(body.get("tools")),
        others(body, "input", "tools", "instructions"),
        complete=not (body.get("previous_response_id") or body.get("conversation")),
    )


def _answers(body: Mapping[str, Any]) -> bool:
    return body.get("object") in ("response", "response.compaction") or (
        isinstance(body.get("output"), list)
        and any("type" in item for item in objects(body.get("output")))
    )


def _answered(body: Mapping[str, Any]) -> Answered:
    chat = Chat()
    for item in items(body.get("output")):
        try:
            chat.add(item)
        except Broken:
            continue
    replies = [message for message in chat.messages if message["role"] == "assistant"]
    return Answered(
        replies[:1] if len(replies) < 2 else [_merged(replies)],
        reported(body.get("usage")),
        told(body.get("error")),
        body.get("created_at"),
    )


def _merged(replies: list[dict[str, Any]]) -> dict[str, Any]:
    """One message of several, which something that the maker put in had parted."""
    texts = [message["content"] for message in replies if message["content"]]
    calls = [call for message in replies for call in message.get("tool_calls", ())]
    merged: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) or None}
    if calls:
        merged["tool_calls"] = calls
    return merged


def reported(usage: Any) -> Reported:
    """The counts of ``usage``: ``input_tokens`` includes what was cached."""
    usage = mapping(usage)
    details = mapping(usage.get("input_tokens_details"))
    return Reported(
        tokens(usage.get("input_tokens")),
        tokens(details.get("cached_tokens")),
        tokens(usage.get("output_tokens")),
        tokens(details.get("cache_write_tokens")),
    )


def _joined(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last state of the response that a stream's events tell."""
    last = None
    for event in events:
        kind = event.get("type")
        if isinstance(kind, str) and kind.startswith("response."):
            last = mapping(event.get("response")) or last
    return last


DIALECT = Dialect("openai_responses", "input", _asks, _asked, _answers, _answered, _joined)
