"""Is this a session of pi, and which requests did it send?

One line an entry. In later versions each names the one before it, so that a session is a tree; the
first versions were a list. A compaction puts a summary in the place of everything before the first
entry that it kept. The system prompt and the tools are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects.call import function, plain
from kvagent.audit.formats.fields import (
    apart,
    inline,
    mapping,
    objects,
    seconds,
    shown,
    string,
    tokens,
)
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken, dumped
from kvagent.audit.formats.unroll import Prefix, Trail, grown
from kvagent.audit.transcript import Item, Place, Reported, Request, Unreadable

_FAILED = ("error", "aborted")
# How pi shows the model what is no message: summaries, and commands that the user ran.
_SUMMARY = "<summary>\n{}\n</summary>"


@dataclass(slots=True, eq=False)
class _Entry:
    """An entry, and the prompt that would be sent behind it."""

    name: str | None
    parent: _Entry | None
    said: tuple[dict[str, Any], ...]
    prompt: Prefix
    depth: int


class _Session:
    """The tree of a session while its entries come in."""

    def __init__(self) -> None:
        self._conversation: str | None = None
        self._by_name: dict[str, _Entry] = {}
        self._lines: list[_Entry | None] = []
        self._last: _Entry | None = None
        self._trail = Trail()
        self._compacted = False

    def add(self, place: Place, line: Mapping[str, Any]) -> Iterator[Request]:
        """Take the next entry. Raises ``Broken``."""
        kind = line.get("type")
        if kind == "session":
            self._conversation = string(line.get("id"))
            self._lines.append(None)
            return
        parent = self._parent(line)
        before = parent.prompt if parent is not None else Prefix([])
        said: tuple[dict[str, Any], ...] = ()
        if kind == "message":
            message = line.get("message")
            if not isinstance(message, dict) or not isinstance(message.get("role"), str):
                self._lines.append(parent)
                raise Broken("is an entry without a message")
            if message["role"] == "assistant":
                reply = _reply(message)
                if before:
                    yield self._request(place, line, message, before, reply)
                # What came to nothing, or was broken off, is not sent again.
                said = () if message.get("stopReason") in _FAILED else (reply,)
            else:
                said = _said(message)
        elif kind in ("compaction", "branch_summary"):
            text = string(line.get("summary")) or ""
            said = ({"role": "user", "content": _SUMMARY.format(text)},) if text else ()
        elif kind == "custom_message":
            said = ({"role": "user", "content": _content(line.get("content"))},)
        self._compacted = self._compacted or kind == "compaction"
        prompt = (
            self._shortened(line, parent, said) if kind == "compaction" else grown(before, *said)
        )
        name = string(line.get("id"))
        depth = 0 if parent is None else parent.depth + 1
        entry = _Entry(name, parent, said, prompt, depth)
        if name is not None:
            self._by_name[name] = entry
        self._lines.append(entry)
        self._last = entry

    def _parent(self, line: Mapping[str, Any]) -> _Entry | None:
        if "parentId" not in line:
            return self._last
        parent = string(line["parentId"])
        return None if parent is None else self._by_name.get(parent)

    def _shortened(
        self, line: Mapping[str, Any], parent: _Entry | None, summary: tuple[dict[str, Any], ...]
    ) -> Prefix:
        """The summary, and what was kept behind it."""
        first = string(line.get("firstKeptEntryId"))
        index = tokens(line.get("firstKeptEntryIndex"))
        start: _Entry | None = None
        if first is not None:
            start = self._by_name.get(first)
        elif index is not None and index < len(self._lines):
            start = self._lines[index]
        kept: list[dict[str, Any]] = []
        if start is not None:
            entry = parent
            path: list[_Entry] = []
            while entry is not None and entry.depth >= start.depth:
                path.append(entry)
                entry = entry.parent
            kept = [message for each in reversed(path) for message in each.said]
        return Prefix([*summary, *kept])

    def _request(
        self,
        place: Place,
        line: Mapping[str, Any],
        message: Mapping[str, Any],
        prompt: Prefix,
        reply: dict[str, Any],
    ) -> Request:
        usage = mapping(message.get("usage"))
        # A call that came to nothing has counts of 0.
        said = any(tokens(usage.get(key)) for key in ("input", "cacheRead", "cacheWrite"))
        failed = message.get("stopReason") in _FAILED
        error = string(message.get("errorMessage")) if failed else None
        parted = self._trail.parts(self._conversation, prompt) is not None
        why = "compaction" if self._compacted else "branch"
        self._compacted = False
        return Request(
            place=place,
            messages=prompt,
            options={"model": message.get("model")},
            replies=() if failed and not said else (reply,),
            reported=_reported(usage) if said else Reported(),
            error=error,
            conversation=self._conversation,
            time_s=seconds(message.get("timestamp")) or seconds(line.get("timestamp")),
            complete=frozenset(),
            unrolled=True,
            departs=why if parted else None,
        )


def _reply(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of the model. Raises ``Broken``."""
    content = message.get("content")
    texts, thoughts, calls = [], [], []
    for block in objects(content):
        kind = block.get("type")
        if kind == "toolCall":
            arguments = dumped(block.get("arguments") or {})
            calls.append(function(block.get("name"), arguments, block.get("id")))
        elif kind == "thinking":
            thoughts.append(string(block.get("thinking")) or "")
        elif text := shown(block):
            texts.append(text)
    if isinstance(content, str):
        texts.append(content)
    made: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) or None}
    if any(thoughts):
        made["reasoning_content"] = "\n".join(thoughts)
    if calls:
        made["tool_calls"] = calls
    return made


def _said(message: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """What anybody but the model said, as pi tells it the model."""
    role = message["role"]
    if role == "toolResult":
        content = _content(message.get("content"))
        return ({"role": "tool", "tool_call_id": message.get("toolCallId"), "content": content},)
    if role == "bashExecution":
        if message.get("excludeFromContext"):
            return ()
        command, output = (string(message.get(key)) or "" for key in ("command", "output"))
        text = f"Ran `{command}`\n```\n{output}\n```"
        return ({"role": "user", "content": text},)
    if role in ("branchSummary", "compactionSummary"):
        text = string(message.get("summary")) or ""
        return ({"role": "user", "content": _SUMMARY.format(text)},)
    return ({"role": "user", "content": _content(message.get("content"))},)


def _content(content: Any) -> Any:
    """Content in OpenAI's form."""
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for block in objects(content):
        if block.get("type") == "image":
            url = inline(block.get("mimeType"), block.get("data"))
            parts.append({"type": "image_url", "image_url": {"url": url}})
        else:
            parts.append({"type": "text", "text": shown(block)})
    return plain(parts)


def _reported(usage: Mapping[str, Any]) -> Reported:
    """The counts of a call: what was cached or written is not in ``input``."""
    return apart(
        usage.get("input"), usage.get("cacheRead"), usage.get("cacheWrite"), usage.get("output")
    )


def _is_entry(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("type") == "session":
        return "id" in value and "cwd" in value
    message = value.get("message")
    return value.get("type") == "message" and isinstance(message, dict) and "role" in message


def _claims(contents: Contents) -> bool:
    return any(map(_is_entry, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    session = _Session()
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, line = each
        try:
            yield from session.add(place, line)
        except Broken as error:
            yield Unreadable(place, str(error))


FORMAT = Format("pi", "a session of pi", _claims, _read)
