"""Is this a session of Claude Code, and which requests did it send?

One line an event, each naming the one before it, so that a session is a tree: where the user went
back there is a branch, a sub-agent has a root of its own, and so has what follows a compaction. A
message of the model has a line for each of its blocks; all repeat its usage, and only the last has
the final count of output. The system prompt and the tools are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import anthropic
from kvagent.audit.formats.fields import items, mapping, objects, seconds, shown, string
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import Prefix, Trail, grown
from kvagent.audit.transcript import Item, Place, Reported, Request, Unreadable

_SAYING = ("user", "assistant")
# Claude Code itself speaks as a model of this name, mostly of errors.
_NO_MODEL = "<synthetic>"
_CLEARED = "[Old tool result content cleared]"


@dataclass(slots=True, eq=False)
class _Node:
    """What was added to the conversation at once: a user's words, a model's message, results."""

    place: Place
    parent: _Node | None
    said: list[dict[str, Any]] = field(default_factory=list)
    """Messages in OpenAI's form."""
    blocks: list[Any] = field(default_factory=list)
    """Those of a model's message, while they come in."""
    call: Mapping[str, Any] | None = None
    """The last line of a model's message."""
    conversation: str | None = None
    time_s: float | None = None
    cleared: frozenset[str] = frozenset()
    """The calls whose results are cleared from here on."""
    departs: str | None = None
    """Why what follows does not go on from what was before, as in ``Request.departs``."""
    results: _Node | None = None
    prompt: Prefix | None = None
    """The messages up to this one."""
    since: _Node | None = None
    """The last one up to here from which on it does not go on."""


class Session:
    """The tree of a session while its lines come in."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = []
        self._by_line: dict[str, _Node] = {}
        self._by_message: dict[tuple[str, str | None], _Node] = {}
        self._callers: dict[str, _Node] = {}
        self._last: _Node | None = None

    def add(self, place: Place, line: Mapping[str, Any]) -> None:
        """Take the next line. Raises ``Broken``."""
        message = line.get("message")
        kind = line.get("type")
        if kind in _SAYING and not isinstance(message, dict):
            raise Broken(f"is a line of the {kind} without a message")
        if kind == "assistant":
            node = self._model(place, line, mapping(message))
        elif kind == "user":
            node = self._user(place, line, mapping(message))
        else:
            node = _Node(place, self._parent(line))
            ids = mapping(line.get("microcompactMetadata")).get("compactedToolIds")
            node.cleared = frozenset(each for each in items(ids) if isinstance(each, str))
            if node.cleared:
                node.departs = "clearing"
            elif line.get("subtype") == "compact_boundary":
                node.departs = "compaction"
            self._nodes.append(node)
        uuid = string(line.get("uuid"))
        if uuid is not None:
            self._by_line[uuid] = node
        if uuid is not None or kind in _SAYING:
            self._last = node

    def requests(self) -> Iterator[Item]:
        """What the agent sent, in the order of the file."""
        for node in self._nodes:
            try:
                # An error is shown to the user, and not to the model.
                if node.call is not None and not node.call.get("isApiErrorMessage"):
                    node.said = [anthropic.reply(node.blocks)]
            except Broken as error:
                yield Unreadable(node.place, str(error))
                node.call = None
        trail = Trail()
        since: dict[str | None, _Node | None] = {}
        for node in self._nodes:
            if node.call is None:
                continue
            message = mapping(node.call.get("message"))
            failed = bool(node.call.get("isApiErrorMessage"))
            if message.get("model") == _NO_MODEL and not failed:
                continue
            prompt = _prompt(node.parent)
            if prompt:
                parted = trail.parts(node.conversation, prompt) is not None
                last = None if node.parent is None else node.parent.since
                new = last is not None and last is not since.get(node.conversation)
                since[node.conversation] = last
                yield Request(
                    place=node.place,
                    messages=prompt,
                    options={} if failed else {"model": message.get("model")},
                    replies=() if failed else tuple(node.said),
                    reported=Reported() if failed else anthropic.reported(message.get("usage")),
                    error=(shown(message.get("content")) or "an error") if failed else None,
                    conversation=node.conversation,
                    time_s=node.time_s,
                    complete=frozenset(),
                    unrolled=True,
                    departs=(last.departs if last and new else "branch") if parted else None,
                )

    def _parent(self, line: Mapping[str, Any]) -> _Node | None:
        if "parentUuid" not in line:
            return self._last
        parent = string(line["parentUuid"])
        return None if parent is None else self._by_line.get(parent)

    def _model(self, place: Place, line: Mapping[str, Any], message: Mapping[str, Any]) -> _Node:
        side = string(line.get("agentId")) or str(bool(line.get("isSidechain")))
        name = string(message.get("id"))
        node = None if name is None else self._by_message.get((name, side))
        if node is None:
            node = _Node(place, self._parent(line))
            node.conversation = self._conversation(line, node.parent)
            node.time_s = seconds(line.get("timestamp"))
            self._nodes.append(node)
            if name is not None:
                self._by_message[name, side] = node
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else items(content)
        node.blocks.extend(blocks)
        node.call = line
        for block in objects(blocks):
            if isinstance(call := block.get("id"), str):
                self._callers[call] = node
        return node

    def _user(self, place: Place, line: Mapping[str, Any], message: Mapping[str, Any]) -> _Node:
        said = list(anthropic.said("user", message.get("content")))
        caller = None
        for each in said:
            if each["role"] == "tool" and isinstance(call := each["tool_call_id"], str):
                caller = caller or self._callers.get(call)
        if caller is None:
            node = _Node(place, self._parent(line))
            if line.get("isCompactSummary"):
                node.departs = "compaction"
            self._nodes.append(node)
        else:
            # Results of calls made at once have a line each, and go out together.
            node = caller.results or _Node(place, caller)
            if caller.results is None:
                caller.results = node
                self._nodes.append(node)
        node.said.extend(said)
        node.conversation = self._conversation(line, node.parent)
        return node

    def _conversation(self, line: Mapping[str, Any], parent: _Node | None) -> str | None:
        session = string(line.get("sessionId"))
        if not line.get("isSidechain"):
            return session
        if parent is not None and parent.conversation is not None:
            return parent.conversation
        agent = string(line.get("agentId")) or string(line.get("uuid"))
        return f"{session}/{agent}"


def _prompt(node: _Node | None) -> Prefix:
    """The messages up to a node."""
    path: list[_Node] = []
    seen: set[int] = set()
    while node is not None and node.prompt is None and id(node) not in seen:
        seen.add(id(node))  # a damaged file may lead in a circle
        path.append(node)
        node = node.parent
    prompt = (node.prompt if node is not None else None) or Prefix([])
    for node in reversed(path):
        if node.cleared:
            prompt = Prefix([_without_result(each, node.cleared) for each in prompt])
        prompt = node.prompt = grown(prompt, *node.said)
        above = None if node.parent is None else node.parent.since
        node.since = above if node.departs is None else node
    return prompt


def _without_result(message: Mapping[str, Any], cleared: frozenset[str]) -> Mapping[str, Any]:
    if message.get("role") == "tool" and message.get("tool_call_id") in cleared:
        return {**message, "content": _CLEARED}
    return message


def _is_line(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind in _SAYING:
        return "message" in value and ("parentUuid" in value or "sessionId" in value)
    return kind == "file-history-snapshot" or (kind == "summary" and "leafUuid" in value)


def _claims(contents: Contents) -> bool:
    return any(map(_is_line, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    session = Session()
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, line = each
        try:
            session.add(place, line)
        except Broken as error:
            yield Unreadable(place, str(error))
    yield from session.requests()


FORMAT = Format("claude_code", "a session of Claude Code", _claims, _read)
