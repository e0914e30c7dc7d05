"""What does a policy mean for a window of so many tokens?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from kvagent.policy import Clear, Compact, Evict, Policy

_RECALL = "kvagent_recall"  # as the policy's own defaults name it
_EXAMPLES = (5_000, 20_000)


def explain(policy: Policy, window: int | None) -> str:
    """One line for each mark, in tokens, and one for what is set otherwise than by default."""
    lines = [
        f"window: {_tokens(window)}" if window else "window: as the server says, once it was asked"
    ]
    if policy.mode != "full":
        lines.append(f'mode "{policy.mode}": nothing below is done to what a model reads')
    if window:
        lines.append(
            f"a prompt may have {_tokens(policy.room(window))}, less where the request asks for a "
            "longer reply"
        )
    lines += _evict(policy.evict, window)
    lines += _clear(policy.clear, policy, window)
    lines += _compact(policy.compact, window)
    lines.append(
        "recall: off, the API alone"
        if policy.recall is None
        else f"recall: a tool, answered by {policy.recall.answer}, "
        f"{_tokens(policy.recall.max_tokens)} at a time"
    )
    if window and policy.warn_at:
        marks = ", ".join(f"{int(share * window):,}" for share in sorted(policy.warn_at))
        lines.append(f"warnings at {marks} tokens")
    set_otherwise = "; ".join(changed(policy))
    if set_otherwise:
        lines.append(f"set: {set_otherwise}")
    return "\n".join(lines)


def changed(settings: BaseModel, place: str = "") -> Iterator[str]:
    """The fields that differ from their defaults, as ``kvagent rewrite --set`` takes them."""
    for name, field in type(settings).model_fields.items():
        value, usual = getattr(settings, name), field.get_default(call_default_factory=True)
        if value == usual:
            continue
        if not isinstance(value, BaseModel):
            yield f"{place}{name}={_shown(value)}"
            continue
        if usual is None:
            yield f"{place}{name}=on"
        yield from changed(value, f"{place}{name}.")


def _shown(value: object) -> str:
    if value is None:
        return "off"
    if isinstance(value, tuple):
        return json.dumps(value, default=str)
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _evict(evict: Evict | None, window: int | None) -> Iterator[str]:
    if evict is None:
        yield "evict: off"
        return
    when = evict.trigger or (f"over {_tokens(window // 40)}" if window else "over 2,000 tokens")
    examples = ", ".join(
        f"{evict.tokens_kept(tokens, window):,} of {tokens:,}"
        for tokens in _EXAMPLES
        if evict.trips(tokens, window)
    )
    yield f"evict: tool results {when}" + (f"; {examples} tokens are kept" if examples else "")


def _clear(clear: Clear | None, policy: Policy, window: int | None) -> Iterator[str]:
    if clear is None:
        yield "clear: off"
        return
    if window:
        yield (
            f"clear: above {_tokens(policy.room(window))}, to what cannot be cleared and "
            f"{clear.spare:.0%} of the rest; {_tokens(clear.least(window))} at least, or not at all"
        )
    else:
        yield "clear: for the window's sake once it is known"
    cost = clear.carry_cost
    yield (
        "clear by price: as soon as the server's timings tell what a cached token costs"
        if cost is None
        else f"clear by price: a cached token costs {cost:g} of an uncached one each turn"
        if cost
        else "clear by price: off"
    )
    inputs = "are cleared too" if clear.clear_tool_inputs else "stay"
    kept = f"clear: the newest {clear.keep} results stay, long arguments of old calls {inputs}"
    # Where the model is not given the tool of recall, it has no results.
    absent = _RECALL if policy.recall is None else None
    tools = ", ".join(tool for tool in clear.exclude_tools if tool != absent)
    yield kept + (f"; the results of {tools} stay in any case" if tools else "")


def _compact(compact: Compact | None, window: int | None) -> Iterator[str]:
    if compact is None:
        yield "compact: off"
        return
    size = (
        _tokens(int(compact.budget * window)) if window else f"{compact.budget:.0%} of the window"
    )
    yield (
        f"compact: where clearing leaves too little room; the newest {compact.keep_turns} replies "
        f"stay, a record of {size} at most stands for the others"
    )


def _tokens(count: int | None) -> str:
    return f"{count:,} tokens"
