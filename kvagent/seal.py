"""Is what goes out what went out before, and where not, why?

Compares what goes out with what went out before. Going back, retrying and fanning out break
nothing: the server keeps the part in common. A break is a change in front of something that is
sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from kvagent.chat import Doubt, calls_of, text_of
from kvagent.entry import Entry, Head, Told
from kvagent.events import Cause, PrefixBroken
from kvagent.fingerprint import identity, normal_form
from kvagent.prefixcache.seen import common_prefix
from kvagent.recognise import Match
from kvagent.stages import Edit, Fresh, Turn
from kvagent.stages.pin_head import tools_cause
from kvagent.stages.spared import spared
from kvagent.standing import Standing

# How far into a fresh tail to look for messages that were sent before in another place.
_LOOK = 64

# So long a reply is not written twice by chance.
_UNIQUE_CHARS = 16

_NO_TOOLS = b"[]"


def head_break(turn: Turn, conversation: str) -> PrefixBroken | None:
    """The break in front of all messages, if the head is not the one that was sent before."""
    if turn.past_head is None:
        return None
    lost = turn.past.tokens
    return _head_broken(turn, conversation, turn.past_head, turn.past_told, lost)


def _head_broken(
    turn: Turn, conversation: str, old: Head, told: Told, lost: int
) -> PrefixBroken | None:
    cause, index, detail = _head_difference(turn, old, told)
    return None if cause is None else PrefixBroken(conversation, index, cause, lost, detail)


def _head_difference(turn: Turn, old: Head, told: Told) -> tuple[Cause | None, int, str]:
    new = turn.head
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
        place = _as_the_agent_counts(turn, old, index)
        detail = _where(turn, old, place)
        if turn.view.meanings != old.meanings:
            return "system_changed", place, detail
        known = tuple(told.get(i) for i in range(len(turn.view.values)))
        cause: Cause = "volatile_text" if known != turn.view.values else "system_reserialised"
        return cause, place, detail
    if (old.tools or _NO_TOOLS) != (new.tools or _NO_TOOLS):
        cause = tools_cause(turn.view, old)
        return cause, 0, _tools_detail(old, new) if cause == "tools_changed" else ""
    return None, 0, ""


def _as_the_agent_counts(turn: Turn, old: Head, index: int) -> int:
    """The place that the first system message that differs has in the request as it came."""
    meanings = turn.view.meanings
    new = next((at for at, m in enumerate(meanings) if m not in old.meanings), None)
    if new is not None:
        return new
    sent, came = turn.head.system, turn.view.system(turn.head.hidden)
    return came.index(sent[index]) if index < len(sent) and sent[index] in came else index


def _where(turn: Turn, old: Head, place: int) -> str:
    came = turn.view.system(turn.head.hidden)
    if len(old.system) != len(came):
        return f"{len(old.system)} system messages became {len(came)}"
    now = came[place].decode()
    at = max(common_prefix(before.decode(), now) for before in old.system)
    return f"system message {place} differs from character {at} of its JSON on"


def _tools_detail(old: Head, new: Head) -> str:
    def names(forms: Mapping[bytes, bytes]) -> set[str]:
        tools = [orjson.loads(form) for form in forms.values()]
        functions = (tool.get("function") for tool in tools)
        return {str(function.get("name")) for function in functions if isinstance(function, dict)}

    before, after = names(old.tool_forms), names(new.tool_forms)
    changes = [
        f"{label} {', '.join(sorted(which))}"
        for label, which in (("added", after - before), ("removed", before - after))
        if which
    ]
    return "; ".join(changes) or "a definition changed"


def message_break(turn: Turn, match: Match, conversation: str) -> PrefixBroken | None:
    """The break inside the messages, if something sent before stands behind a change."""
    if not turn.tail:
        return None
    if match.doubted is not None:
        return _values_differ(turn, match.doubted, conversation)
    if match.cut:
        return None
    if match.let_go is not None and (lost := _answered_tokens(turn)):
        detail = "holding what moved would take more than it spares"
        return PrefixBroken(conversation, turn.tail[0].index, "text_moved", lost, detail)
    if _reply_changed(turn):
        lost = _reply_tokens(turn, turn.past)
        return PrefixBroken(conversation, turn.tail[0].index, "message_changed", lost)
    for position, fresh in enumerate(turn.tail[:_LOOK]):
        before = _sent_before(turn, position)
        if before is None:
            continue
        again, then = before
        now = turn.past.depth + 1 + position
        cause: Cause = (
            "message_changed"
            if then == now
            else "messages_removed"
            if then > now
            else "message_inserted"
        )
        last = _last(again)
        lost = last.tokens + _reply_tokens(turn, last) - turn.past.tokens
        if turn.past is turn.tree.root and again.head is not None:
            broken = _head_broken(turn, conversation, again.head, again.told, lost)
            if broken is not None:
                return broken
            lost -= turn.count_tokens(
                b"".join((*again.head.system, again.head.tools or b"")).decode()
            )
        detail = f"{cause.replace('_', ' ')} before message {fresh.index}"
        return PrefixBroken(conversation, turn.tail[0].index, cause, max(lost, 0), detail)
    if turn.tree.alone and turn.past is turn.tree.root and turn.past.children:
        last = _last(turn.past)
        lost = last.tokens + _reply_tokens(turn, last) - turn.past_tokens
        return PrefixBroken(conversation, turn.tail[0].index, "message_changed", max(lost, 0))
    return None


def _values_differ(turn: Turn, doubted: Entry, conversation: str) -> PrefixBroken | None:
    """The break where volatile values kept a conversation from being taken for the same."""
    lost = max(_last(doubted).tokens - turn.past.tokens, 0)
    if doubted.head is not None:
        broken = _head_broken(turn, conversation, doubted.head, doubted.told, lost)
        if broken is not None:
            return broken
    detail = "ids or names differ, so it may be another conversation that reads alike"
    return PrefixBroken(conversation, turn.tail[0].index, "volatile_text", lost, detail)


def _answered_tokens(turn: Turn) -> int:
    """What the tail has up to the newest answer: the server had it, behind something else."""
    answered = max(
        (n for n, fresh in enumerate(turn.tail, 1) if fresh.role == "assistant"), default=0
    )
    return sum(map(turn.weight, turn.tail[:answered]))


def _sent_before(turn: Turn, position: int) -> tuple[Entry, int] | None:
    """Where a fresh reply or result was sent, or generated, before: the entry, and how deep."""
    fresh = turn.tail[position]
    if fresh.role not in ("assistant", "tool"):
        return None
    again = turn.tree.newest.get(fresh.meaning)
    if again is not None and again.parent is not None and _stands_behind(again, turn.past):
        if _surely_same(turn, position, again.parent, again):
            return again, again.depth
    asked = turn.tree.answered.get(fresh.meaning)
    if asked is not None and _stands_behind(asked, turn.past):
        if _surely_same(turn, position, asked, None):
            return asked, asked.depth + 1
    return None


def _reply_tokens(turn: Turn, entry: Entry) -> int:
    """What the newest reply after an entry has added to the cache."""
    if entry.facts is not None and entry.facts.completion_tokens is not None:
        return entry.facts.completion_tokens
    if not entry.replies:
        return 0
    return turn.count_tokens(identity(entry.replies[-1].message).decode())


def _reply_changed(turn: Turn) -> bool:
    """Whether the newest reply comes back as something else than was generated."""
    fresh = turn.tail[0]
    if fresh.role != "assistant" or not turn.past.replies or turn.past.children:
        return False
    return all(
        reply.meaning != fresh.meaning
        # What a stage made of it is no fault of the agent's; echo may have mended what is one.
        and not _extends(fresh.incoming, reply.message)
        and not _extends(fresh.message, reply.message)
        for reply in turn.past.replies
    )


def _extends(message: Mapping[str, Any], generated: Mapping[str, Any]) -> bool:
    """Whether the message only adds to what was generated."""
    calls, made = _calls(message), _calls(generated)
    added = text_of(message).startswith(text_of(generated).rstrip())
    return added and (not made or calls[: len(made)] == made)


def _calls(message: Mapping[str, Any]) -> list[bytes]:
    calls = calls_of(normal_form(message))
    return [orjson.dumps(call, option=orjson.OPT_SORT_KEYS) for call in calls]


def _stands_behind(entry: Entry, past: Entry) -> bool:
    """Whether an entry follows ``past``, at any distance."""
    at: Entry | None = entry
    while at is not None and at.depth > past.depth:
        at = at.parent
    return at is past and entry is not past


def _surely_same(turn: Turn, position: int, before: Entry, again: Entry | None) -> bool:
    """Whether it is this message that was sent before, and not one that reads alike."""
    fresh = turn.tail[position]
    if fresh.incoming.get("tool_calls") or fresh.incoming.get("tool_call_id"):
        return True
    if turn.past is not turn.tree.root or turn.tree.alone:
        return True
    if len(text_of(fresh.incoming)) >= _UNIQUE_CHARS:
        return True
    if position > 0 and turn.tail[position - 1].meaning == before.meaning:
        return True
    following = turn.tail[position + 1].meaning if position + 1 < len(turn.tail) else None
    return again is not None and following is not None and following in again.children


def _last(entry: Entry) -> Entry:
    """The end of the conversation that went on from an entry."""
    while entry.children:
        entry = next(reversed(list(entry.children.values())))[-1]
    return entry


def repairs(turn: Turn, match: Match, raws: Sequence[bytes]) -> list[Edit]:
    """Messages that came back in another form than they were sent, and are replayed."""
    head_size = turn.request.head_size
    known = turn.request.known - head_size
    differing: list[tuple[int, Entry]] = []
    moved: list[tuple[int, Entry]] = []
    entry = turn.past
    while entry.parent is not None and (at := match.consumed[entry.depth - 1]) >= known:
        if at in match.moved or match.consumed[entry.depth] == at:
            moved.append((at, entry))
        elif entry.sent != raws[at - known] and entry.raw != raws[at - known]:
            differing.append((at, entry))
        entry = entry.parent
    saved = spared(turn) if moved or differing else 0
    return [
        Edit("replay", cause, head_size + found[-1][0], len(found), saved)
        for cause, found in (("text_moved", moved), ("message_reserialised", differing))
        if found
    ]


def check_pairs(turn: Turn) -> None:
    """A stage may change texts, never who says what, or which call is answered.

    Where old turns leave, calls and their results leave together.
    """
    if turn.revised or any(fresh.left_out for fresh in turn.tail):
        here, all_of_it = _unpaired(turn.standing()), _unpaired(turn.originals())
        if not here <= all_of_it:
            raise Doubt("a stage separated a tool call from its result")
    for fresh in turn.tail:
        if fresh.message is fresh.incoming or fresh.left_out:
            continue
        if fresh.message.get("role") != fresh.incoming.get("role") or fresh.message.get(
            "tool_call_id"
        ) != fresh.incoming.get("tool_call_id"):
            raise Doubt(f"a stage changed role or tool_call_id of message {fresh.index}")
        if _call_ids(fresh) != _call_ids(fresh, incoming=True):
            raise Doubt(f"a stage changed the tool calls of message {fresh.index}")


def _unpaired(messages: Iterable[Standing]) -> set[object]:
    """The ids of calls without a result behind them, and of results without their call."""
    calls: set[object] = set()
    orphans: set[object] = set()
    for each in messages:
        ids = {call.get("id") for call in calls_of(each.sent)}
        if each.role == "tool":
            name = each.sent.get("tool_call_id")
            (calls if name in calls else orphans).symmetric_difference_update({name})
        calls |= ids
    return calls | orphans


def _call_ids(fresh: Fresh, incoming: bool = False) -> list[object]:
    return [call.get("id") for call in calls_of(fresh.incoming if incoming else fresh.message)]
