"""Which tool results are too long to be sent whole?

A result is shortened on arrival, before it was ever sent, so no prefix breaks. What it loses
stays in the store under a handle that the marker names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kvagent.chat import calls_of, texts_of
from kvagent.shorten import shorten
from kvagent.stages.turn import Edit, Fresh, Turn

# So far a shortened text may be above what shall be kept, before it is shortened once more.
_SLACK = 1.25

# Arguments that name a part of a source: the agent wanted just this, and will not get it shorter.
_RANGES = frozenset(
    (
        "end",
        "end_line",
        "head",
        "head_limit",
        "limit",
        "line_end",
        "line_range",
        "line_start",
        "lines",
        "offset",
        "range",
        "start",
        "start_line",
        "tail",
        "view_range",
    )
)


def evict(turn: Turn) -> None:
    """Shorten the fresh tool results that trip ``policy.evict.trigger``."""
    policy = turn.policy.evict
    if policy is None:
        return
    for fresh in turn.tail:
        if fresh.role != "tool":
            continue
        texts = texts_of(fresh.message)
        text = "\n".join(texts)
        # A token is at least one byte, and the trigger need not be asked about less.
        if len(text) < policy.keep or not _all_text(fresh.message, texts):
            continue
        tokens = turn.count_tokens(text)
        if tokens <= policy.keep or not policy.trigger(tokens, turn.window):
            continue
        call = _call_of(turn, fresh)
        if call.get("name") in policy.exclude_tools or _asks_for_a_range(call):
            continue
        _shorten(turn, fresh, text, tokens, policy.keep)


def _shorten(turn: Turn, fresh: Fresh, text: str, tokens: int, keep: int) -> None:
    budget = len(text) * keep // tokens
    handle = turn.store_original(text)
    shortened = shorten(text, budget, handle=handle)
    kept = turn.count_tokens(shortened.text)
    if kept > _SLACK * keep:  # what is kept has more tokens a character than what is left out
        shortened = shorten(text, budget * keep // kept, handle=handle)
    if len(shortened.text) >= len(text):
        return
    content = fresh.message["content"]
    if isinstance(content, list):
        fresh.message = {**fresh.message, "content": [{"type": "text", "text": shortened.text}]}
    else:
        fresh.message = {**fresh.message, "content": shortened.text}
    saved = tokens - turn.count_tokens(shortened.text)
    turn.edits.append(
        Edit(
            "evict",
            "result_too_long",
            fresh.index,
            saved_tokens=saved,
            detail=f"{shortened.kept} of {shortened.kept + shortened.dropped} {shortened.unit} "
            f"kept; original under {handle}",
        )
    )


def _all_text(message: Mapping[str, Any], texts: list[str]) -> bool:
    content = message.get("content")
    return isinstance(content, str) or (isinstance(content, list) and len(texts) == len(content))


def _call_of(turn: Turn, fresh: Fresh) -> Mapping[str, Any]:
    """The function that a result answers, with its arguments; empty where it is not found."""
    wanted = fresh.incoming.get("tool_call_id")
    for message in reversed(turn.messages[: fresh.index]):
        for call in calls_of(message):
            if call.get("id") == wanted:
                function = call.get("function")
                return function if isinstance(function, dict) else {}
    return {}


def _asks_for_a_range(call: Mapping[str, Any]) -> bool:
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return False
    return isinstance(arguments, dict) and any(
        arguments[name] not in (None, "", [], 0) for name in _RANGES & arguments.keys()
    )
