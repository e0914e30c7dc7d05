"""Is it time to clear old results, and how much of them?

Everything behind the first edited byte is prefilled again, so edits come in batches: when the
prompt leaves no room for the reply, or when carrying the old results has cost as much.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvagent.entry import Swept
from kvagent.policy import Clear
from kvagent.pricing import Layer, Rent, due
from kvagent.stages.turn import Edit, Turn
from kvagent.standing import Standing

if TYPE_CHECKING:
    from kvagent.clearing import Cleared

logger = logging.getLogger("kvagent")

# This part of the room is made free beside what must be, so that the next turns fit too.
_NEXT_TURNS = 8
# About what stands in place of a result that is cleared.
_STUB_TOKENS = 50


def clear(turn: Turn) -> None:
    """Make one batch of edits where it is due."""
    policy = turn.policy.clear
    if policy is None:
        return
    full = is_full(turn)
    turn.rent, first = _priced(turn, policy)
    if not full and first is None:
        return
    standing = turn.standing()
    if full and not can_fit(turn, standing):
        return
    try:
        cleared = _batch(turn, policy, standing, None if full else first)
    except Exception:  # nothing is changed yet, and a record of old turns may make room as well
        logger.exception("kvagent failed to clear old results; they stay as they are")
        return
    if cleared:
        _apply(turn, standing, cleared, "window_full" if full else "carrying_costs")


def _batch(
    turn: Turn, policy: Clear, standing: Sequence[Standing], first: int | None
) -> Sequence[Cleared]:
    """What to clear; nothing where that would free too little.

    Args:
        first: clear from this message on, because it pays; None: whatever makes enough room.
    """
    from kvagent.clearing import clearable, plan

    tokens, remaining = turn.tokens, None
    options = _options(policy)
    turn.floor = tokens - clearable(standing, **options)
    if first is None and turn.room is not None:
        free = tokens - turn.floor - int(policy.spare * max(0, turn.room - turn.floor))
    else:  # stubs of a batch before have paid already, and what they hold stands nowhere else
        options["again"] = False
        remaining = int((1 - policy.spare) * clearable(standing, **options))
        standing = _from(standing, first or 0)
        free = int((1 - policy.spare) * clearable(standing, **options))
    rent = turn.rent
    turn.rent = rent.corrected(first or 0, 0)  # what fails is not tried again at once
    cleared = plan(
        standing,
        free=free,
        count_tokens=turn.weigh_text,
        store_original=turn.had_back,
        **options,
    )
    before = {each.index: each.tokens for each in standing}
    freed = sum(before[one.index] - one.tokens for one in cleared)
    if freed < policy.least(turn.window or tokens):
        turn.rent = rent.corrected(first or 0, freed)
        return ()
    turn.rent = rent.settled(first or 0, remaining and max(0, remaining - freed))
    return cleared


def squeeze(turn: Turn) -> None:
    """Where even the record of old turns was not enough, clear also what is otherwise spared."""
    policy = turn.policy.clear
    if policy is None or turn.room is None or not is_full(turn):
        return
    from kvagent.clearing import plan

    standing = turn.standing()
    if not can_fit(turn, standing):
        return
    over = turn.tokens - turn.room
    try:
        cleared = plan(
            standing,
            free=over + turn.room // _NEXT_TURNS,
            must=over,
            count_tokens=turn.weigh_text,
            store_original=turn.had_back,
            **_options(policy),
        )
    except Exception:  # the server will say whether it is too long
        logger.exception("kvagent failed to make room; the prompt goes out as long as it is")
        return
    if cleared:
        _apply(turn, standing, cleared, "window_full")


def _options(policy: Clear) -> dict[str, Any]:
    return {
        "keep": policy.keep,
        "exclude_tools": policy.exclude_tools,
        "clear_tool_inputs": policy.clear_tool_inputs,
    }


def is_full(turn: Turn) -> bool:
    """Whether the prompt leaves too little room for the reply."""
    room = turn.room
    if room is None:
        return False
    # A token has at least one byte: where this fits, nothing has to be counted.
    if turn.past_tokens + sum(len(fresh.sent) for fresh in turn.tail) <= room:
        return False
    return turn.tokens > room


def can_fit(turn: Turn, standing: Sequence[Standing]) -> bool:
    """Whether head, task and the newest user message leave any room: else nothing would help.

    To edit such a prompt would only blind the agent: the server will say that it is too long.
    """
    users = [each for each in standing if each.role == "user"]
    spared = {each.index: each.tokens for each in (*users[:1], *users[-1:])}
    head = turn.tokens - sum(each.tokens for each in standing)
    return turn.window is None or head + sum(spared.values()) < turn.window


def _apply(
    turn: Turn,
    standing: Sequence[Standing],
    cleared: Sequence[Cleared],
    cause: str,
) -> None:
    by_index = {each.index: each for each in standing}
    first = min(cleared, key=lambda one: one.index)
    behind = cached_behind(standing, first.index)
    freed = sum(turn.revise(by_index[one.index], one.message) for one in cleared)
    cost = max(0, behind - freed)
    reasons = Counter(one.reason for one in cleared)
    turn.edits.append(
        Edit(
            "clear",
            cause,
            first.index,
            count=len(cleared),
            detail=", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())),
            freed_tokens=freed,
            cost_tokens=cost,
            expected_tokens=turn.expected(freed, cost),
        )
    )


def cached_behind(standing: Sequence[Standing], index: int) -> int:
    """Tokens that were sent before, from a message on."""
    return sum(each.tokens for each in standing if each.depth and each.index >= index)


def _priced(turn: Turn, policy: Clear) -> tuple[Rent, int | None]:
    """The rent with this turn in it, and the message from which on clearing pays."""
    carry = turn.carry_cost if policy.carry_cost is None else policy.carry_cost
    if carry is None:
        return due(turn.rent, cached=0, kept=0, carry=None)
    fresh, kept = _swept(turn, policy)
    return due(
        turn.rent,
        fresh=fresh,
        cached=turn.past_tokens,
        kept=kept,
        carry=carry,
        least=policy.least(turn.window or turn.tokens),
    )


def _swept(turn: Turn, policy: Clear) -> tuple[list[Layer], int]:
    """What can be cleared by now and could not before, and the tokens from what is spared on.

    Looks only at what was sent since, and at the spared results: an estimate, not the plan.
    """
    spare = policy.keep - sum(fresh.role == "tool" for fresh in turn.tail)
    kept = behind = 0
    found: list[Layer] = []
    depth = turn.swept.depth
    entry = turn.past
    # Most of what an agent writes are arguments, and they are cleared where they are long.
    roles = ("tool", "assistant") if policy.clear_tool_inputs else ("tool",)
    while entry.parent is not None and entry.depth > turn.swept.depth:
        behind += entry.own
        if spare > 0:
            if entry.role == "tool":
                spare -= 1
                kept = behind
        elif entry.role in roles:
            removable = int((1 - policy.spare) * max(0, entry.own - _STUB_TOKENS))
            found.append(Layer(entry.depth, turn.past_tokens - behind, removable))
            depth = max(depth, entry.depth)
        entry = entry.parent
    turn.swept = Swept(depth)
    return found[::-1], kept


def _from(standing: Sequence[Standing], number: int) -> Sequence[Standing]:
    """The messages from one on, with the call of a result that stands there."""
    first = sum(0 < each.depth < number for each in standing)
    while first and standing[first].role == "tool":
        first -= 1
    return standing[first:]
