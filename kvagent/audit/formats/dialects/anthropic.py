"""What do a request to and an answer from Anthropic's messages API hold?

A message is a list of blocks. Results of tools stand in a message of the user, in front of what the
user says; in OpenAI's form each is a message of its own. The system prompt is no message there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from kvagent.audit.formats.fields import apart, inline, items, mapping, objects, shown, string, told
from kvagent.audit.formats.json_text import Broken, dumped
from kvagent.audit.formats.repeated import all_pass
from kvagent.audit.transcript import Reported

_BLOCKS_SEEN = ("tool_use", "tool_result", "thinking", "redacted_thinking")
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


def speaks(messages: Any) -> bool:
    """Whether messages have blocks that only Anthropic's have."""
    return not all_pass(items(messages), _are_of_others)


def _are_of_others(messages: list[Any]) -> bool:
    return not any(
        block.get("type") in _BLOCKS_SEEN
        for message in messages
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for block in objects(message["content"])
    )


def chat(messages: Any) -> Iterator[dict[str, Any]]:
    """Messages in OpenAI's form. Raises ``Broken``."""
    if not isinstance(messages, list):
        raise Broken('has no list of "messages"')
    for at, message in enumerate(messages):
        role = mapping(message).get("role")
        if not isinstance(role, str):
            raise Broken(f"has no object with a role as message {at}")
        content = message.get("content")
        if role == "assistant":
            yield reply(content)
        else:
            yield from said(role, content)


def reply(content: Any) -> dict[str, Any]:
    """A message of the model: its text, what it thought, its calls. Raises ``Broken``."""
    texts, thoughts, calls = [], [], []
    for block in _blocks(content):
        kind = block.get("type")
        if kind in _CALLS:
            given = block.get("input")
            arguments = given if isinstance(given, str) else dumped(given or {})
            calls.append(function(block.get("name"), arguments, block.get("id")))
        elif kind == "thinking":
            thoughts.append(string(block.get("thinking")) or "")
        elif kind != "redacted_thinking" and (text := shown(block)):
            texts.append(text)
    message: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) or None}
    if any(thoughts):
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def said(role: str, content: Any) -> Iterator[dict[str, Any]]:
    """What the user, or a tool in the user's name, said."""
    if isinstance(content, str):
        yield {"role": role, "content": content}
        return
    rest: list[dict[str, Any]] = []
    for block in _blocks(content):
        if block.get("type") == "tool_result":
            yield {
                "role": "tool",
                "tool_call_id": block.get("tool_use_id"),
                "content": _result(block.get("content")),
            }
        else:
            rest.append(_part(block))
    if rest:
        yield {"role": role, "content": plain(rest)}


def _blocks(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    for block in items(content):
        if isinstance(block, dict):
            yield block
        elif isinstance(block, str):
            yield {"type": "text", "text": block}


def _result(content: Any) -> Any:
    """A result's content."""
    if not isinstance(content, list):
        return shown(content)
    return plain([_part(block) for block in _blocks(content)])


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block of content as a content part."""
    if block.get("type") == "image":
        source = mapping(block.get("source"))
        url = source.get("url")
        if not isinstance(url, str):
            url = inline(source.get("media_type"), source.get("data"))
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "text", "text": shown(block)}


def tools_of(tools: Any) -> list[dict[str, Any]]:
    """Tools in OpenAI's form; those that run at the maker's have a name only."""
    return [
        each
        if "function" in each
        else tool(each.get("name"), each.get("description"), each.get("input_schema"))
        for each in objects(tools)
    ]


def reported(usage: Any) -> Reported:
    """The counts of ``usage``: what was cached or written is not in ``input_tokens``."""
    usage = mapping(usage)
    return apart(
        usage.get("input_tokens"),
        usage.get("cache_read_input_tokens"),
        usage.get("cache_creation_input_tokens"),
        usage.get("output_tokens"),
    )


def _asks(body: Mapping[str, Any]) -> bool:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return False
    return (
        "system" in body
        or "anthropic_version" in body
        or any(
            isinstance(each, dict) and "input_schema" in each for each in items(body.get("tools"))
        )
        or speaks(messages)
    )


def _asked(body: Mapping[str, Any]) -> Asked:
    messages = list(chat(body.get("messages")))
    system = shown(body.get("system"))
    if system:
        messages.insert(0, {"role": "system", "content": system})
    if not messages:
        raise Broken('has an empty list of "messages"')
    return Asked(messages, tools_of(body.get("tools")), others(body, "messages", "tools", "system"))


def _answers(body: Mapping[str, Any]) -> bool:
    return (body.get("type") == "message" or body.get("role") == "assistant") and isinstance(
        body.get("content"), list
    )


def _answered(body: Mapping[str, Any]) -> Answered:
    try:
        replies = [reply(body.get("content"))]
    except Broken:
        replies = []
    return Answered(replies, reported(body.get("usage")), told(body.get("error")))


def _joined(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The events of a stream as one answer."""
    answer: dict[str, Any] | None = None
    usage: dict[str, Any] = {}
    blocks: dict[Any, dict[str, Any]] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            answer = dict(mapping(event.get("message")))
            usage.update(mapping(answer.get("usage")))
        elif kind == "content_block_start":
            blocks[_index(event)] = dict(mapping(event.get("content_block")))
        elif kind == "content_block_delta":
            _add(blocks.setdefault(_index(event), {}), mapping(event.get("delta")))
        elif kind == "message_delta":
            usage.update(
                (key, value)
                for key, value in mapping(event.get("usage")).items()
                if value is not None
            )
    if answer is None:
        return None
    return {**answer, "content": _settled(blocks.values()), "usage": usage}


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1


_DELTAS = {"text": "text", "thinking": "thinking", "partial_json": "input"}


def _add(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for said, kept in _DELTAS.items():
        piece = delta.get(said)
        if isinstance(piece, str):
            pieces = block.get(kept)
            if not isinstance(pieces, list):
                pieces = [pieces] if isinstance(pieces, str) else []
            pieces.append(piece)
            block[kept] = pieces


def _settled(blocks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    for block in blocks:
        for key in ("text", "thinking", "input"):
            if isinstance(block.get(key), list):
                block[key] = "".join(block[key])
    return list(blocks)


DIALECT = Dialect("anthropic", "messages", _asks, _asked, _answers, _answered, _joined)
