"""In which words does the page speak of servers, places and reasons?"""

from __future__ import annotations

from kvagent.audit.figures import change, several
from kvagent.audit.names import called, placed
from kvagent.audit.prediction import Target
from kvagent.audit.report.page.timeline import broken
from kvagent.audit.reported import SENTENCES
from kvagent.audit.rule import Spot
from kvagent.audit.session import Row
from kvagent.audit.transcript import Place
from kvagent.prefixcache.hit import Loss

# What is so of nearly every prompt, and costs a block at most, is not worth a word.
_LOSSES: dict[Loss, str] = {
    "evicted": "it made room for others",
    "slot": "in a slot that was not chosen",
    "checkpoint": "the state cannot be rolled back to there",
    "off": "the cache is not read",
}

# Characters of an error in a table.
_ROOM = 200

_KINDS = {"again": "sent again", "branched": "branch", "changed": "changed"}


def server(target: Target, block_size: int | None = None) -> str:
    """``vLLM, blocks of 16 tokens``; a trace has blocks of its own size."""
    if target.kind == "vllm" or block_size is not None:
        parts = ["vLLM", f"blocks of {several(block_size or target.block_size, 'token')}"]
        if target.blocks is None:
            parts.append("a cache without end")
        else:
            parts.append(f"a cache of {several(target.blocks, 'block')}")
    else:
        parts = [target.kind, several(target.slots, "slot")]
    if target.window is not None:
        parts.append(f"a window of {several(target.window, 'token')}")
    return ", ".join(parts)


def line(place: Place) -> str:
    """Its line, or else where it stands in its document."""
    return place.path if place.line is None else f"{place.line:,}"


def beside(place: Place, other: Place) -> str:
    """The place, without the file's name if the other one told it."""
    text = placed(place)
    return text.removeprefix(called(place.file)) if place.file == other.file else text


def where(spot: Spot, *, many: bool) -> str:
    """``turn 3 · message 0 · content · character 41``; the conversation only if there are many."""
    parts = []
    if many:
        parts.append(f"conversation {spot.conversation}")
    parts.append(f"turn {spot.turn}")
    if spot.message is not None:
        parts.append(f"message {spot.message}")
    if spot.tool is not None:
        parts.append(f"tool {spot.tool}")
    if spot.field:
        parts.append(spot.field)
    if spot.character is not None:
        parts.append(f"character {spot.character:,}")
    return " · ".join(parts)


def happened(row: Row) -> list[str]:
    """What is to be said of a request besides its figures."""
    said = [broken(each) for each in row.breaks]
    if row.kind in ("again", "branched", "compacted") and not row.breaks:
        said.append(_KINDS.get(row.kind, row.kind))
    if row.error is not None:
        said.append(f"error: {_begins(row.error)}")
    if row.predicted_tokens is None:
        said.append("longer than the window")
    if row.loss in _LOSSES:
        said.append(f"cached less: {_LOSSES[row.loss]}")
    if row.gap is not None and row.gap.reason != "agrees":
        said.append(f"reported {change(row.gap.tokens)}: {SENTENCES[row.gap.reason]}")
    if row.fault:
        said.append(_begins(row.fault))
    return said


def _begins(text: str) -> str:
    """A text that may be a whole page, as far as a table has room for it."""
    return text if len(text) <= _ROOM else f"{text[:_ROOM]}…"
