"""Did the prefix break, where, and why?

Compares what goes out with what went out before. Going back, retrying and fanning out break
nothing: the server keeps the part in common. A break is a change in front of something that is
sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kvagent.chat import text_of
from kvagent.events import Cause, PrefixBroken
from kvagent.ledger import Entry, Head
from kvagent.recognise import Match
from kvagent.stages import Turn
from kvagent.stages.pin_head import tools_cause

# How far into a fresh tail to look for messages that were sent before in another place.
_LOOK = 64


def head_break(turn: Turn, conversation: str) -> PrefixBroken | None:
    """The break in front of all messages, if the head is not the one that was sent before."""
    old, new = turn.past.head, turn.head
    if old is None:
        return None
    cause, index, detail = _head_difference(turn, old, new)
    if cause is None:
        return None
    return PrefixBroken(conversation, index, cause, turn.past.tokens, detail)


def _head_difference(turn: Turn, old: Head, new: Head) -> tuple[Cause | None, int, str]:
    if old.options != new.options:
        names = sorted(
            name
            for name in old.options.keys() | new.options.keys()
            if old.options.get(name) != new.options.get(name)
        )
        return "options_changed", 0, "changed: " + ", ".join(names)
    if old.system != new.system:
        index = next(
            (
                i
                for i, pair in enumerate(zip(old.system, new.system, strict=False))
                if pair[0] != pair[1]
            ),
            min(len(old.system), len(new.system)),
        )
        if turn.view.meanings != old.meanings:
            return "system_changed", index, _where(old.system, new.system, index)
        told = tuple(turn.past.told.get(i) for i in range(len(turn.view.values)))
        cause: Cause = "volatile_text" if told != turn.view.values else "system_reserialised"
        return cause, index, _where(old.system, new.system, index)
    if old.tools != new.tools:
        cause = tools_cause(turn.view, old)
        return cause, 0, _tools_detail(old, new) if cause == "tools_changed" else ""
    return None, 0, ""


def _where(old: Sequence[bytes], new: Sequence[bytes], index: int) -> str:
    if index >= min(len(old), len(new)):
        return f"{len(old)} system messages became {len(new)}"
    a, b = old[index].decode(), new[index].decode()
    at = next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
    return f"system message {index} differs from character {at} of its JSON on"


def _tools_detail(old: Head, new: Head) -> str:
    def names(forms: Mapping[bytes, bytes]) -> set[str]:
        tools = [orjson.loads(form) for form in forms.values()]
        return {str((tool.get("function") or tool).get("name")) for tool in tools}

    before, after = names(old.tool_forms), names(new.tool_forms)
    changes = [
        f"{label} {', '.join(sorted(which))}"
        for label, which in (("added", after - before), ("removed", before - after))
        if which
    ]
    return "; ".join(changes) or "a definition changed"


def message_break(turn: Turn, match: Match, conversation: str) -> PrefixBroken | None:
    """The break inside the messages, if something sent before stands behind a change."""
    if match.cut or not turn.tail:
        return None
    head_size = turn.request.head_size
    if _reply_changed(turn):
        facts = turn.past.facts
        lost = (facts.completion_tokens if facts else None) or 0
        return PrefixBroken(conversation, turn.tail[0].index, "message_changed", lost)
    for position, fresh in enumerate(turn.tail[:_LOOK]):
        again = turn.tree.newest.get(fresh.meaning)
        if again is None or fresh.role not in ("assistant", "tool"):
            continue
        if not _stands_behind(again, turn.past) or not _surely_same(turn, position, again):
            continue
        depth = turn.past.depth + 1 + position
        cause: Cause = (
            "message_changed"
            if again.depth == depth
            else "messages_removed"
            if again.depth > depth
            else "message_inserted"
        )
        lost = _last(again).tokens - turn.past.tokens
        if turn.past.parent is None and turn.past is turn.tree.root:
            index = head_size
        else:
            index = turn.tail[0].index
        return PrefixBroken(
            conversation,
            index,
            cause,
            lost,
            f"{cause.replace('_', ' ')} before message {fresh.index}",
        )
    return None


def _reply_changed(turn: Turn) -> bool:
    """Whether the newest reply comes back as something else than was generated."""
    fresh = turn.tail[0]
    if fresh.role != "assistant" or not turn.past.replies or turn.past.children:
        return False
    return all(
        reply.meaning != fresh.meaning and not _extends(fresh.message, reply.message)
        for reply in turn.past.replies
    )


def _extends(message: Mapping[str, Any], generated: Mapping[str, Any]) -> bool:
    """Whether the message only adds to what was generated."""
    calls, made = message.get("tool_calls") or [], generated.get("tool_calls") or []
    added = text_of(message).startswith(text_of(generated).rstrip())
    return added and (not made or calls[: len(made)] == made)


def _stands_behind(entry: Entry, past: Entry) -> bool:
    """Whether an entry follows ``past``, at any distance."""
    at: Entry | None = entry
    while at is not None and at.depth > past.depth:
        at = at.parent
    return at is past and entry is not past


def _surely_same(turn: Turn, position: int, again: Entry) -> bool:
    """Whether it is this message that was sent before, and not one that reads alike."""
    fresh = turn.tail[position]
    if fresh.incoming.get("tool_calls") or fresh.incoming.get("tool_call_id"):
        return True
    if turn.past is not turn.tree.root:
        return True
    following = turn.tail[position + 1].meaning if position + 1 < len(turn.tail) else None
    return following is not None and following in again.children


def _last(entry: Entry) -> Entry:
    """The end of the conversation that went on from an entry."""
    while entry.children:
        entry = next(reversed(list(entry.children.values())))[-1]
    return entry
