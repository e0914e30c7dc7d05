"""Which old turns leave the prompt for a record, when clearing does not make enough room?

The record is text at the end of the first user message, so that roles go on alternating and the
head stays first. Behind it stand the newest turns as they were.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvagent.chat import calls_of, shown, with_text_appended
from kvagent.flow import Ask
from kvagent.policy import Compact
from kvagent.stages.clear import cached_behind, is_full
from kvagent.stages.turn import Edit, Turn
from kvagent.standing import Standing
from kvagent.summaries import Writing

if TYPE_CHECKING:
    from kvagent.compaction import Facts
    from kvagent.compaction.summary import SummaryReply
    from kvagent.compaction.tiers import Tier

logger = logging.getLogger("kvagent")

# Where what cannot be cleared fills more of the room than this, clearing would soon be due again.
_CROWDED = 0.5
# Where it fits anyway, a record has to free this part of the prompt, all of which is prefilled again.
_WORTHWHILE = 10
# Results of more tokens than this get a handle when they leave.
_RECALLED = 100
# So many turns before there is no room for it any more, a narrative is asked for in the background.
_AHEAD = 4
# Seconds that a turn waits for one that is being written.
_PATIENCE = 120.0


def compact(turn: Turn) -> Generator[Ask, Any, None]:
    """Replace old turns by a record, if that is due; asks for a narrative where it can be had."""
    policy = turn.policy.compact
    if policy is None or not (is_full(turn) or (turn.revised and is_crowded(turn))):
        return
    standing = turn.standing()
    old = old_turns(standing, policy.keep_turns, _excess(turn))
    if old is None:
        return
    try:
        narrative = yield from _narrative(turn, standing, old)
    except Exception:
        logger.exception("kvagent failed to have a narrative written; facts alone stand")
        narrative = None
    if narrative is not None:
        old = narrative.old
    try:
        message, tiers = _bearing(turn, policy, standing, old, narrative)
    except Exception:  # nothing is changed yet, and what is still spared may make room as well
        logger.exception("kvagent failed to make a record of old turns; they stay as they are")
        return
    detail = "facts alone" if narrative is None else "facts and a narrative"
    _replace(turn, standing, old, message, tiers, detail)


def is_crowded(turn: Turn) -> bool:
    """Whether clearing alone leaves too little room to grow."""
    return turn.floor is not None and turn.room is not None and turn.floor > _CROWDED * turn.room


@dataclass(frozen=True, slots=True)
class Old:
    """The turns that leave the prompt: places in a list of what stands."""

    start: int
    stop: int
    """Behind the last of them; an assistant message stands there."""


def old_turns(standing: Sequence[Standing], keep: int, excess: int = 0) -> Old | None:
    """All turns between the first user message and the newest ones; None where there are none.

    ``keep`` replies stay, or fewer where these turns have not the ``excess`` tokens that must go.
    """
    if not standing or standing[0].role != "user":
        return None
    cuts = list(_cuts(standing))
    while cuts and cuts[-1] == len(standing) - 1:
        cuts.pop()  # a reply without results behind it is no turn that goes on
    if not cuts:
        return None
    for cut in cuts[max(0, len(cuts) - keep) :]:
        if sum(each.tokens for each in standing[1:cut]) >= excess:
            return Old(1, cut)
    return Old(1, cuts[-1])


def _cuts(standing: Sequence[Standing]) -> Iterator[int]:
    """The places in front of a reply at which every call before has its result."""
    open_calls: set[object] = set()
    for at, each in enumerate(standing):
        if each.role == "assistant":
            if at > 1 and not open_calls:
                yield at
            open_calls = {call.get("id") for call in calls_of(each.sent)}
        elif each.role == "tool":
            open_calls.discard(each.came.get("tool_call_id"))


def _excess(turn: Turn) -> int:
    """Tokens that old turns must have for the prompt to fit, with the record in their place."""
    assert turn.policy.compact is not None
    if turn.room is None:
        return 0
    return turn.tokens - turn.room + int(turn.policy.compact.budget * (turn.window or 0))


@dataclass(frozen=True, slots=True)
class _Told:
    """A narrative, and the turns that it stands for or ends in."""

    text: str
    old: Old


def _narrative(
    turn: Turn, standing: Sequence[Standing], old: Old
) -> Generator[Ask, Any, _Told | None]:
    """One that was written in the background, or is being written, or one asked for now."""
    if turn.summaries.summarize is None:
        return None
    keys = {entry.depth: entry.key for entry in turn.past.path()}
    needed = _excess(turn)
    told = (
        turn.past.revision.tiers[-1].last if turn.past.revision and turn.past.revision.tiers else 0
    )
    for stop in range(old.stop, old.start, -1):
        each = standing[stop - 1]
        if each.depth <= told or each.depth not in keys:
            continue
        asked, text = turn.summaries.found(turn.namespace, keys[each.depth])
        running = turn.summaries.running(turn.namespace, keys[each.depth])
        if not asked and running is None:
            continue
        freed = sum(each.tokens for each in standing[old.start : stop])
        if running is not None:
            text = yield Ask(_wait, running)
        fits = freed >= needed and stop in set(_cuts(standing))
        if isinstance(text, str):
            return _Told(text, Old(old.start, stop) if fits else old)
        if asked and stop == old.stop:
            return None  # for these very turns nothing came of it
    last = standing[old.stop - 1].depth
    body = turn.last_sent()
    if body is None or not last or last not in keys or not has_room(turn, turn.past_before):
        return None
    if not turn.summaries.willing():
        return None
    text = yield from writing(turn, body, standing[old.start : old.stop])
    turn.summaries.keep(turn.namespace, keys[last], text)
    return None if text is None else _Told(text, old)


def _wait(running: Future[str | None]) -> str | None:
    return running.result(_PATIENCE)


def ahead(turn: Turn, growth: float) -> tuple[bytes, Writing] | None:
    """What to have written in the background now: the entry up to which, and how; None: nothing.

    ``turn`` stands behind an answered request; ``growth`` is what a turn adds.
    """
    policy = turn.policy.compact
    if policy is None or not policy.background or turn.summaries.summarize is None:
        return None
    room = turn.room
    if room is None or turn.past_tokens + _AHEAD * growth < room:
        return None
    standing = turn.standing()
    clearing = turn.policy.clear
    if clearing is not None:
        from kvagent.clearing import clearable

        turn.floor = turn.tokens - clearable(
            standing,
            keep=clearing.keep,
            exclude_tools=clearing.exclude_tools,
            clear_tool_inputs=clearing.clear_tool_inputs,
        )
        if not is_crowded(turn):
            return None  # clearing will make room enough
    old = old_turns(standing, policy.keep_turns)
    body = turn.last_sent()
    if old is None or body is None or not has_room(turn, turn.past_tokens):
        return None
    key = turn.past.path()[standing[old.stop - 1].depth - 1].key
    if turn.summaries.found(turn.namespace, key)[0] or not turn.summaries.willing():
        return None
    return key, writing(turn, body, standing[old.start : old.stop])


def has_room(turn: Turn, tokens: int) -> bool:
    """Whether the call for a narrative fits behind so many tokens."""
    policy = turn.policy.compact
    if policy is None or turn.window is None:
        return False
    return tokens + policy.call_tokens(turn.window) <= turn.window


def writing(turn: Turn, body: Mapping[str, Any], old: Sequence[Standing]) -> Writing:
    """Have a narrative of old turns written and checked."""
    from kvagent.compaction.flow import compact as flow

    policy, summarize = turn.policy.compact, turn.summaries.summarize
    assert policy is not None
    assert summarize is not None
    source = [each.came for each in old]
    messages = body["messages"]
    steps = flow(
        body,
        source,
        facts_until(turn, old[-1].index),
        budget=record_tokens(turn, policy),
        max_tokens=policy.narrative_tokens(turn.window or policy.max_tokens * 8),
        count_tokens=turn.weigh_text,
        known="\n".join(map(shown, messages)),
    )
    try:
        request = next(steps)
        while True:
            answer = yield Ask(summarize, request)
            request = steps.send(_usable(answer))
    except StopIteration as stop:
        compacted = stop.value
    for counts in compacted.counts:
        turn.summaries.told(counts)
    narrative: str | None = compacted.narrative
    return narrative


def _usable(answer: object) -> SummaryReply | str | None:
    """What a summarizer answered, if it did; why it did not is told, once for each time."""
    from kvagent.compaction.summary import SummaryReply

    if isinstance(answer, str | SummaryReply):
        return answer
    if isinstance(answer, Exception):
        logger.warning("the summarizer failed (%s): facts alone stand", type(answer).__name__)
        logger.debug("the summarizer failed", exc_info=answer)
    else:
        logger.warning("the summarizer gave no text (%s): facts alone stand", type(answer).__name__)
    return None


def record_tokens(turn: Turn, policy: Compact) -> int:
    """Tokens that the record of old turns may have."""
    return max(200, int(policy.budget * (turn.window or turn.tokens)))


def facts_until(turn: Turn, index: int) -> Facts:
    """What happened up to a message, without the first user message, which stands as it is."""
    from kvagent.compaction import facts_of

    messages: list[Mapping[str, Any]] = []
    handles: dict[int, str] = {}
    for each in turn.originals():
        if each.index > index:
            break
        if turn.view.has_own_tool and each.role == "tool" and each.tokens > _RECALLED:
            handles[len(messages)] = turn.had_back(shown(each.came))
        messages.append(each.came)
    return facts_of(messages[1:], handles={at - 1: handle for at, handle in handles.items()})


def _bearing(
    turn: Turn, policy: Compact, standing: Sequence[Standing], old: Old, told: _Told | None
) -> tuple[Mapping[str, Any], tuple[Tier, ...]]:
    """The first message with the record of all that left, and the narratives in that record."""
    from kvagent.compaction.narrative import up_to_date
    from kvagent.compaction.record import records
    from kvagent.compaction.tiers import settled

    leaving = standing[old.start : old.stop]
    budget = record_tokens(turn, policy)
    tiers = turn.past.revision.tiers if turn.past.revision else ()
    if told is not None:
        tiers = settled(
            (*tiers, _tier(turn, tiers, leaving, told.text)), budget // 2, turn.weigh_text
        )
    facts = facts_until(turn, leaving[-1].index)
    room = budget - sum(tier.tokens for tier in tiers)
    texts = records(
        [up_to_date(tier.text, facts) for tier in tiers],
        facts,
        budget=room,
        count_tokens=turn.weigh_text,
    )
    texts += _quotations(turn, standing, old, texts)
    first = turn.first_form(standing[0])
    return with_text_appended(first, "\n\n" + "\n\n".join(texts)), tiers


def _replace(
    turn: Turn,
    standing: Sequence[Standing],
    old: Old,
    message: Mapping[str, Any],
    tiers: tuple[Tier, ...],
    detail: str,
) -> None:
    """Let the old turns leave, and the record stand in the first message."""
    bearer, leaving = standing[0], standing[old.start : old.stop]
    before, full = turn.tokens, is_full(turn)
    freed = sum(each.tokens for each in leaving) - (turn.weigh(message) - bearer.tokens)
    if freed <= 0 or (not full and freed < before // _WORTHWHILE):
        return
    behind = cached_behind(standing, bearer.index)
    turn.revise(bearer, message)
    for each in leaving:
        turn.revise(each, None)
    turn.tiers = tiers
    freed = before - turn.tokens
    cost = max(0, behind - freed)
    turn.edits.append(
        Edit(
            "compact",
            "window_full" if full else "window_crowded",
            bearer.index,
            count=len(leaving),
            detail=detail,
            freed_tokens=freed,
            cost_tokens=cost,
            expected_tokens=turn.expected(freed, cost),
        )
    )


def _quotations(
    turn: Turn, standing: Sequence[Standing], old: Old, texts: Sequence[str]
) -> list[str]:
    """What the results of all turns that left hold and nothing else in the prompt does."""
    from kvagent.clearing import gist
    from kvagent.compaction.record import quoted

    assert turn.policy.compact is not None
    last = standing[old.stop - 1].index
    staying = [shown(each.sent) for each in (*standing[1 : old.start], *standing[old.stop :])]
    left = record_tokens(turn, turn.policy.compact) - sum(map(turn.weigh_text, texts))
    frame = turn.weigh_text(quoted("."))
    if left < 2 * frame:  # more would be said about the quotations than by them
        return []
    held = gist(
        [each.came for each in turn.originals() if each.index <= last],
        [shown(turn.first_form(standing[0])), *staying, *texts],
        room=left - frame,
        count_tokens=turn.weigh_text,
    )
    return [quoted(held)] if held else []


def _tier(turn: Turn, tiers: Sequence[Tier], leaving: Sequence[Standing], text: str) -> Tier:
    from kvagent.compaction.tiers import Tier

    first = tiers[-1].last + 1 if tiers else leaving[0].depth
    return Tier(first, leaving[-1].depth, text, turn.weigh_text(text))
