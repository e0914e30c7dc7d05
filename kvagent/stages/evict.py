"""Which tool results are too long to be sent whole?

A result is shortened on arrival, before it was ever sent, so no prefix breaks: first to a form
that loses nothing, where there is one, then by what it holds. What it loses stays in the store
under a handle that the marker names. A result that stands above already becomes a pointer to it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import orjson

from kvagent.chat import calls_of, text_of, texts_of
from kvagent.events import Cause
from kvagent.policy import Evict
from kvagent.shorten import Shortened, lossless, shorten, source_of, words_of
from kvagent.shorten.marker import pointer
from kvagent.stages.turn import Edit, Fresh, Turn

logger = logging.getLogger("kvagent")

# So far a shortened text may be above what shall be kept, before it is shortened once more.
_SLACK = 1.25
# A pointer takes some fifty tokens: a text of a few times that is worth one.
_REPEAT_CHARS = 1_000
# So far two results with the same text differ in length: by the id of their call.
_ID_CHARS = 64

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
    """Shorten the fresh tool results that are too long, and point to those that stand already."""
    policy = turn.policy.evict
    if policy is None:
        return
    for fresh in turn.tail:
        if fresh.role != "tool":
            continue
        texts = texts_of(fresh.message)
        text = "\n".join(texts)
        # A token is at least one byte, and nothing smaller need be asked about.
        if len(text) < _REPEAT_CHARS or not _all_text(fresh.message, texts):
            continue
        call = _call_of(turn, fresh)
        if call.get("name") in policy.exclude_tools:
            continue
        if not _point(turn, fresh, text):
            tokens = turn.count_tokens(text)
            if _asks_for_a_range(call) and not policy.trips_a_part(tokens, turn.window):
                continue
            if policy.trips(tokens, turn.window):
                try:
                    _shorten(turn, policy, fresh, text, tokens, call)
                except Exception:  # one text that is not understood costs no other
                    logger.exception("kvagent failed to shorten a result; it goes out whole")


def _point(turn: Turn, fresh: Fresh, text: str) -> bool:
    """Say that a text stands above, whole, if it does."""
    before = turn.past.revision.forms if turn.past.revision else {}
    entry = turn.past
    while entry.parent is not None:
        near = abs(len(entry.sent) - len(fresh.raw)) < _ID_CHARS
        if near and entry.role == "tool" and entry.depth not in before:
            message = orjson.loads(b"[" + entry.sent + b"]")[-1]
            if text_of(message) == text:
                break
        entry = entry.parent
    else:
        return False
    call = _call_of(turn, fresh)
    handle = turn.store_original(text)
    source = source_of(call.get("name"), call.get("arguments")) or "the same call"
    said = pointer(source[:_ID_CHARS], turn.had_back(text))
    tokens = turn.count_tokens(text)
    _set(turn, fresh, said, "repeated_result", tokens, f"stands above; original under {handle}")
    return True


def _shorten(
    turn: Turn, policy: Evict, fresh: Fresh, text: str, tokens: int, call: Mapping[str, Any]
) -> None:
    keep = policy.tokens_kept(tokens, turn.window)
    if tokens <= keep:
        return
    source = source_of(call.get("name"), call.get("arguments"))
    handle = turn.store_original(text)
    had_back = turn.had_back(text)
    whole = lossless(text, handle=had_back, source=source)
    if whole is not None and not policy.trips(turn.count_tokens(whole.text), turn.window):
        shortened = whole
    else:
        shortened = _cut(turn, text, tokens, keep, had_back, source)
    if len(shortened.text) < len(text):
        detail = f"{shortened.kept} of {shortened.kept + shortened.dropped} {shortened.unit} kept"
        if shortened.lossless:
            detail = "in a shorter form"
        _set(
            turn,
            fresh,
            shortened.text,
            "result_too_long",
            tokens,
            f"{detail}; original under {handle}",
        )


def _cut(
    turn: Turn, text: str, tokens: int, keep: int, handle: str, source: str | None
) -> Shortened:
    budget = len(text) * keep // tokens
    known = _shown_before(turn)
    shortened = shorten(text, budget, handle=handle, source=source, known=known)
    kept = turn.count_tokens(shortened.text)
    if kept > _SLACK * keep:  # what is kept has more tokens a character than what is left out
        budget = budget * keep // kept
        shortened = shorten(text, budget, handle=handle, source=source, known=known)
    return shortened


def _shown_before(turn: Turn) -> frozenset[str]:
    """The words of the results that stand already: they need not be kept for their own sake."""
    forms = turn.past.revision.forms if turn.past.revision else {}
    sent = (
        forms.get(entry.depth, entry.sent) for entry in turn.past.path() if entry.role == "tool"
    )
    results = orjson.loads(b"[" + b",".join(form for form in sent if form) + b"]")
    return frozenset(words_of("\n".join(map(text_of, results))))


def _set(turn: Turn, fresh: Fresh, text: str, cause: Cause, tokens: int, detail: str) -> None:
    content = fresh.message["content"]
    whole = [{"type": "text", "text": text}] if isinstance(content, list) else text
    fresh.message = {**fresh.message, "content": whole}
    saved = tokens - turn.count_tokens(text)
    turn.edits.append(
        Edit("evict", cause, fresh.index, saved_tokens=saved, detail=detail, freed_tokens=saved)
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
