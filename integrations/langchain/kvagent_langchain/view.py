"""Which LangChain messages stand for these wire messages?

What is unchanged is the very object that came, what is changed a copy of it, and what never came is
new. Nothing that came is written to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from kvagent.chat import calls_of, text_of
from kvagent.fingerprint import identity
from kvagent_langchain import parts
from kvagent_langchain.wire import REASONING, call

Wire = Mapping[str, Any]
Came = tuple[dict[str, Any], BaseMessage]
Numbered = Sequence[tuple[int, Wire]]

# Where blocks of other providers repeat the arguments of a call.
_ARGUMENTS = {"tool_call": "args", "tool_use": "input"}


def messages(
    wire: Sequence[Wire], before: Sequence[Came], *, as_generated: bool = False
) -> list[BaseMessage]:
    """The messages to hand to a model, so that it sends ``wire``.

    Args:
        wire: what is to go out.
        before: what came, in order, each with the form that it would have gone out in.
        as_generated: whether the model sends what ``wire.as_generated`` adds; else arguments go out
            as ChatOpenAI writes them, and reasoning does not.
    """
    found = dict(_pairs(wire, before))
    names = {each.get("id"): _name_of(each) for message in wire for each in calls_of(message)}
    result: list[BaseMessage] = []
    for at, wanted in enumerate(wire):
        if at in found:
            sent, source = before[found[at]]
            same = identity(wanted) == identity(sent)
            result.append(source if same else _changed(source, sent, wanted, as_generated))
        else:
            result.append(_new(wanted, names, as_generated))
    return result


def _pairs(wire: Sequence[Wire], before: Sequence[Came]) -> Iterator[tuple[int, int]]:
    """Which wanted message stands for which that came: the same one, or one that is changed."""
    yield from _matched(
        list(enumerate(wire)),
        [(at, sent) for at, (sent, _) in enumerate(before)],
        (identity, _ids, _kind),
    )


def _matched(
    wanted: Numbered, came: Numbered, keys: Sequence[Callable[[Wire], Hashable]]
) -> Iterator[tuple[int, int]]:
    """Those alike by the first key, and between them those by the others; in order throughout.

    From the end on, because it is old turns that leave: where two are alike, the newer one stayed.
    """
    if not (wanted and came and keys):
        return
    key, *others = keys
    if not others:
        while wanted and came and _grown(wanted[0][1], came[0][1]):
            yield wanted[0][0], came[0][0]
            wanted, came = wanted[1:], came[1:]
    places: dict[Hashable, list[int]] = {}
    for at, (_, message) in enumerate(came):
        places.setdefault(key(message), []).append(at)
    stop, end = len(wanted), len(came)
    for at in reversed(range(len(wanted))):
        alike = key(wanted[at][1])
        found = places.get(alike, []) if alike is not None else []
        while found and found[-1] >= end:
            found.pop()
        if found:
            yield from _matched(wanted[at + 1 : stop], came[found[-1] + 1 : end], others)
            stop, end = at, found.pop()
            yield wanted[stop][0], came[end][0]
    yield from _matched(wanted[:stop], came[:end], others)


def _grown(wanted: Wire, came: Wire) -> bool:
    """Whether a text is one that came, with a note or a record at its end."""
    alike = _kind(wanted)
    return alike is not None and alike == _kind(came) and text_of(wanted).startswith(text_of(came))


def _ids(message: Wire) -> Hashable:
    """What a call or a result is known by, whatever becomes of its texts."""
    if message["role"] == "tool":
        return "tool", message.get("tool_call_id")
    calls = calls_of(message)
    return ("calls", *(each.get("id") for each in calls)) if calls else None


def _kind(message: Wire) -> Hashable:
    """All that is left to know a text by that was changed."""
    return (message["role"], message.get("name")) if _ids(message) is None else None


def _changed(source: BaseMessage, sent: Wire, wanted: Wire, as_generated: bool) -> BaseMessage:
    """A copy of a message that goes out as wanted, with all that does not go out."""
    changes: dict[str, Any] = {}
    if wanted.get("content") != sent.get("content"):
        changes["content"] = _content(source, wanted.get("content"))
    if isinstance(source, AIMessage):
        changes |= _said(source, sent, wanted, as_generated)
        content = changes.get("content", source.content)
        if "tool_calls" in changes and isinstance(content, list):
            changes["content"] = _with_arguments(content, changes["tool_calls"])
    return source.model_copy(update=changes)


def _content(source: BaseMessage, wanted: Any) -> Any:
    """Content that goes out as wanted; blocks that never go out stay where they are."""
    if not isinstance(wanted, list):
        return wanted or ""
    if not isinstance(source.content, list):
        return wanted
    left = list(wanted)
    blocks: list[Any] = []
    end = 0
    for block in source.content:
        sent = parts.part(source, block)
        if sent is None:
            blocks.append(block)
        elif left:
            part = left.pop(0)
            blocks.append(block if part == sent else part)
            end = len(blocks)
    return [*blocks[:end], *left, *blocks[end:]]


def _said(source: AIMessage, sent: Wire, wanted: Wire, as_generated: bool) -> dict[str, Any]:
    """How the calls of an answer change, and what it keeps of the server's own words."""
    kept = dict(source.additional_kwargs)
    changes: dict[str, Any] = {}
    calls = wanted.get("tool_calls") or []
    if calls != (sent.get("tool_calls") or []):
        changes["tool_calls"], changes["invalid_tool_calls"] = _parsed(calls, source)
        if isinstance(source, AIMessageChunk):
            changes["tool_call_chunks"] = []
        kept.pop("tool_calls", None)
        if calls and (as_generated or "tool_calls" in source.additional_kwargs):
            kept["tool_calls"] = [dict(each) for each in calls]
    for key in ("function_call", *(REASONING if as_generated else ())):
        if wanted.get(key) != sent.get(key):
            kept.pop(key, None)
            if wanted.get(key) is not None:
                kept[key] = wanted[key]
    return {**changes, "additional_kwargs": kept} if kept != source.additional_kwargs else changes


def _parsed(
    calls: Iterable[Wire], source: AIMessage | None = None
) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """The calls that can be read, and those that cannot, as LangChain tells them apart."""
    unread = {} if source is None else {_unread(each): each for each in source.invalid_tool_calls}
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for each in calls:
        form = identity(each)
        arguments = (each.get("function") or {}).get("arguments")
        args = None if form in unread else _read(arguments)
        if args is not None:
            valid.append(
                ToolCall(name=_name_of(each) or "", args=args, id=each.get("id"), type="tool_call")
            )
        else:
            invalid.append(
                unread.get(form)
                or InvalidToolCall(
                    name=_name_of(each),
                    args=arguments,
                    id=each.get("id"),
                    error=None,
                    type="invalid_tool_call",
                )
            )
    return valid, invalid


def _unread(invalid: InvalidToolCall) -> bytes:
    return identity(call(invalid["id"], invalid["name"], invalid["args"]))


def _read(arguments: Any) -> dict[str, Any] | None:
    if not arguments:
        return {}
    try:
        value = json.loads(arguments, strict=False)
    except (TypeError, ValueError, RecursionError):
        return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None


def _name_of(call: Wire) -> str | None:
    return (call.get("function") or {}).get("name")


def _with_arguments(content: Sequence[Any], calls: Iterable[ToolCall]) -> list[Any]:
    """The blocks of an answer, with the arguments that its calls have now."""
    args = {each["id"]: each["args"] for each in calls}
    return [
        {**block, _ARGUMENTS[block["type"]]: args[block["id"]]}
        if isinstance(block, dict) and block.get("type") in _ARGUMENTS and block.get("id") in args
        else block
        for block in content
    ]


def _new(wanted: Wire, names: Mapping[Any, str | None], as_generated: bool) -> BaseMessage:
    """A message that never came."""
    role, name = wanted["role"], wanted.get("name")
    content = wanted.get("content") or ""
    match role:
        case "system":
            return SystemMessage(content, name=name)
        case "developer":
            return SystemMessage(content, name=name, additional_kwargs={"__openai_role__": role})
        case "user":
            return HumanMessage(content, name=name)
        case "assistant":
            blank = AIMessage(content, name=name)
            return blank.model_copy(update=_said(blank, {}, wanted, as_generated))
        case "tool":
            of = wanted.get("tool_call_id") or ""
            return ToolMessage(content, tool_call_id=of, name=names.get(of))
        case "function":
            return FunctionMessage(content=content, name=name or "")
    return ChatMessage(content=content, role=role, name=name)
