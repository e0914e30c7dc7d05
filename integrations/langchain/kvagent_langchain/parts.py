"""What does ChatOpenAI send for the content of a LangChain message?

A text as it is. Of a list each block: the standard blocks of LangChain (both generations) in the
form of chat completions, what other providers know as the nearest, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
    convert_to_openai_data_block,
    is_data_content_block,
)

Block = str | dict[Any, Any]

# Parts of replies for which chat completions has no place.
_NEVER_SENT = (
    "code_interpreter_call",
    "function_call",
    "reasoning_content",
    "thinking",
    "tool_use",
)
_BREAKPOINT = "prompt_cache_breakpoint"
_BASE64 = re.compile(r"data:[^;]+;base64,(.+)$")

# Since which langchain-openai.
_TOOL_TEXT_ALONE = (1, 1, 10)
_BREAKPOINTS = (1, 3, 5)
_INVALID_CALLS_DROPPED = (1, 4, 3)
_REFUSALS_ALONE = (1, 7, 4)


@cache
def _installed() -> tuple[int, ...] | None:
    try:
        found = re.match(r"\d+(\.\d+)*", version("langchain-openai"))
    except PackageNotFoundError:
        return None
    return tuple(map(int, found[0].split("."))) if found else None


def sends(since: tuple[int, ...]) -> bool:
    """Whether the ChatOpenAI at hand does what it has done since a version; the newest by default."""
    installed = _installed()
    return installed is None or installed >= since


def content(message: BaseMessage) -> Any:
    """The content on the wire: a text, or a list of parts."""
    if not isinstance(message.content, list):
        return message.content
    sent = (part(message, block) for block in message.content)
    return [each for each in sent if each is not None]


def part(message: BaseMessage, block: Block) -> Block | None:
    """What goes out for a block of a message; None: nothing."""
    if not isinstance(block, dict):
        return block
    block = _standard(block)
    kind = block.get("type")
    if isinstance(message, AIMessage):
        if kind in ("reasoning", "tool_call"):
            return None
        if kind == "invalid_tool_call" and sends(_INVALID_CALLS_DROPPED):
            return None
        if kind == "text" and "text" in block:
            return {"type": "text", "text": block["text"]}
        if kind == "refusal" and sends(_REFUSALS_ALONE):
            said = block.get("refusal")
            return {"type": "refusal", "refusal": said} if said else None
    if kind in _NEVER_SENT:
        return None
    sent = _openai(block)
    if isinstance(message, ToolMessage) and sent and sends(_TOOL_TEXT_ALONE):
        return _text_alone(sent)
    return sent


def _standard(block: dict[Any, Any]) -> dict[Any, Any]:
    """The block as LangChain hands it to any chat model.

    Audio and files in OpenAI's form, and blocks as they were before LangChain 1, become standard.
    """
    kind = block.get("type")
    inner = block.get("input_audio" if kind == "input_audio" else "file")
    if kind == "input_audio" and isinstance(inner, Mapping):
        if isinstance(inner.get("data"), str) and isinstance(inner.get("format"), str):
            mime = f"audio/{inner['format']}"
            return _with_extras(
                {"type": "audio", "base64": inner["data"], "mime_type": mime}, block
            )
    elif kind == "file" and isinstance(inner, Mapping):
        return _standard_file(block, inner)
    elif kind in ("image", "audio", "file"):
        return _from_before_v1(block)
    return block


def _standard_file(block: dict[Any, Any], file: Mapping[str, Any]) -> dict[Any, Any]:
    """A file in OpenAI's form; LangChain takes every one for a PDF."""
    data = file.get("file_data")
    if not isinstance(data, str) and not isinstance(file.get("file_id"), str):
        return block
    if "file_id" in file:
        return _with_extras({"type": "file", "file_id": file["file_id"]}, block)
    found = _BASE64.match(data) if isinstance(data, str) else None
    if found is None:
        return block
    standard = {"type": "file", "base64": found[1], "mime_type": "application/pdf"}
    name = {} if file.get("filename") is None else {"filename": file["filename"]}
    return _with_extras(standard, {**block, **name})


def _from_before_v1(block: dict[Any, Any]) -> dict[Any, Any]:
    source, kind = block.get("source_type"), block["type"]
    key = {"url": "url", "base64": "data", "id": "id"}.get(str(source))
    if key is None or key not in block:
        return block
    target = {"url": "url", "base64": "base64", "id": "file_id"}[str(source)]
    standard = {"type": kind, target: block[key]}
    if block.get("mime_type"):
        standard["mime_type"] = block["mime_type"]
    return _with_extras(standard, block)


def _with_extras(standard: dict[Any, Any], block: Mapping[Any, Any]) -> dict[Any, Any]:
    """With what a block says beside, as far as that is sent."""
    extras = {k: block[k] for k in ("filename", _BREAKPOINT) if block.get(k) is not None}
    return {**standard, "extras": extras} if extras else standard


def _openai(block: dict[Any, Any]) -> dict[Any, Any] | None:
    """A standard block, or another provider's, in the form of chat completions."""
    if block.get("type") == "text":
        extras = block.get("extras")
        if "text" in block and isinstance(extras, dict) and _BREAKPOINT in extras:
            if sends(_BREAKPOINTS):
                return _with_breakpoint(block, {"type": "text", "text": block["text"]})
        return block
    if is_data_content_block(block):
        try:
            return _with_breakpoint(block, convert_to_openai_data_block(block))
        except (KeyError, TypeError, ValueError):
            return block
    source = block.get("source")
    if block.get("type") == "image" and source and isinstance(source, dict):
        return _anthropic_image(source)
    return block


def _anthropic_image(source: Mapping[str, Any]) -> dict[Any, Any] | None:
    url = source.get("url") if source.get("type") == "url" else None
    if source.get("type") == "base64" and source.get("media_type") and source.get("data"):
        url = f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": url}} if url else None


def _with_breakpoint(block: Mapping[Any, Any], sent: dict[Any, Any]) -> dict[Any, Any]:
    if sends(_BREAKPOINTS):
        extras = block.get("extras")
        for holder in (block, extras if isinstance(extras, dict) else {}):
            if _BREAKPOINT in holder:
                return {**sent, _BREAKPOINT: holder[_BREAKPOINT]}
    return sent


def _text_alone(part: dict[Any, Any]) -> dict[Any, Any]:
    """A tool's text without what else stands beside it."""
    if part.get("type") != "text" or "text" not in part:
        return part
    alone = {"type": "text", "text": part["text"]}
    if _BREAKPOINT in part and sends(_BREAKPOINTS):
        alone[_BREAKPOINT] = part[_BREAKPOINT]
    return alone
