"""What does it spare in this turn that the prefix goes out as it did before?

Not all that stands in another form than the agent's: after the first turn a server would have the
agent's form too. But what stands behind the first place at which the agent's request is another than
all those that the agent sent before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import orjson

from kvagent.chat import shown
from kvagent.entry import Entry, Head
from kvagent.prefixcache.seen import common_prefix
from kvagent.stages.turn import Turn
from kvagent.volatile import Line


def spared(turn: Turn) -> int:
    """Tokens, about, that would be prefilled again if the request went out as it came.

    Never more than there are, as far as forms are known: what did not change of tools and system
    messages is taken to stand in front of what did. Notes are counted against it.
    """
    left, old = turn.own.left, turn.past_head
    if left is None or old is None or not _holds(old, turn.head):
        return 0  # or what goes out differs there, too
    known = turn.past.path(turn.own.begin)
    first = max(0, left.depth - turn.own.begin.depth)
    tokens = _behind(known[first:], turn.own.sizes[first:])
    if turn.own.message is not None:
        text = shown(turn.own.message)
        tokens += turn.count_tokens(text[_same(left, text) :])
    elif left.parent is None:
        head = known[0].tokens - known[0].own
        tokens += head - int(head * _kept(turn, old, known[0].came))
    return max(0, tokens + _reply(turn) - sum(map(turn.count_tokens, turn.notes)))


def _holds(old: Head, new: Head) -> bool:
    """Whether the head goes out as it did before."""
    same = old.system == new.system and old.options == new.options
    return same and (old.tools or b"[]") == (new.tools or b"[]")


def _behind(entries: Sequence[Entry], sizes: Sequence[int]) -> int:
    """Tokens of the last messages in the agent's form, that has so many bytes each."""
    estimated = sum(entry.own for entry in entries)
    own_form = sum(
        entry.own * size // (len(entry.sent) or len(entry.raw))
        for entry, size in zip(entries, sizes, strict=True)
    )
    return own_form * sum(map(_counted, entries)) // estimated if estimated else 0


def _counted(entry: Entry) -> int:
    """Tokens of a message as it was sent, by the server's own count, where it tells."""
    before = entry.parent
    if before is None or before.parent is None or before.revision is not entry.revision:
        return entry.own  # a head, or what was edited meanwhile, would be counted as well
    return entry.tokens - before.tokens


def _same(entry: Entry, text: str) -> int:
    """How much of a text stands so in the other forms of a message that are at hand."""
    forms = [entry.raw, entry.sent]
    if entry.parent is not None:
        known = list(entry.parent.aliases.items())
        forms += (raw for raw, meaning in known if meaning == entry.meaning)
    texts = [shown(orjson.loads(b"[" + form + b"]")[-1]) for form in forms if form]
    return max((common_prefix(text, other) for other in texts if other != text), default=0)


def _kept(turn: Turn, old: Head, known: Sequence[int]) -> float:
    """The share of the head that the agent's requests before had."""
    view = turn.view
    tools = view.came_tools or b""
    kept = 0
    for at, (raw, piece) in enumerate(zip((*view.raws, tools), view.pieces, strict=True)):
        if piece in known:
            kept += len(raw)
        elif at == len(view.raws):
            kept += common_prefix(tools, old.tools or b"")
        else:
            kept += _kept_of_system(turn, old, at)
    return kept / max(1, len(tools) + sum(map(len, view.raws)))


def _kept_of_system(turn: Turn, old: Head, at: int) -> int:
    """Bytes of a system message in front of what changed in it."""
    view = turn.view
    for number, place in enumerate(view.places):
        told, value = turn.past_told.get(number, ""), view.values[number]
        if place.message == at and told != value:
            parts = view.lines[at]
            lines = (*chain(*parts[: place.part]), *parts[place.part][: place.line])
            start = parts[place.part][place.line].spans[place.span].start + common_prefix(
                told, value
            )
            return len(view.raws[at]) * (_length(lines) + start) // _length(chain(*parts))
    return max((common_prefix(view.raws[at], form) for form in old.system), default=0)


def _length(lines: Iterable[Line]) -> int:
    return sum(len(line.text) + 1 for line in lines)


def _reply(turn: Turn) -> int:
    """Tokens of the newest reply, which a server has cached behind the form that was sent."""
    if not turn.tail or all(reply.meaning != turn.tail[0].meaning for reply in turn.past.replies):
        return 0
    tokens = turn.weigh(turn.tail[0].incoming)
    facts = turn.past.facts
    if facts is None or facts.completion_tokens is None:
        return tokens
    return min(tokens, facts.completion_tokens)
