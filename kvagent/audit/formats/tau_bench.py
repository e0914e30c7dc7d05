"""Are these trajectories of τ-bench, and which requests did its agent send?

A list of runs, each with the messages of its session; the tools are not in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import chat
from kvagent.audit.formats.fields import items, name
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import unrolled
from kvagent.audit.transcript import Item, Place, Unreadable


def _is_run(value: Any) -> bool:
    return isinstance(value, dict) and "task_id" in value and _key(value) is not None


def _key(run: dict[str, Any]) -> str | None:
    """Where a run has its messages: τ-bench and its successor differ."""
    return next((key for key in ("traj", "messages") if isinstance(run.get(key), list)), None)


def _runs(value: Any) -> tuple[str, list[Any]]:
    if isinstance(value, dict) and isinstance(value.get("simulations"), list):
        return ".simulations", items(value["simulations"])
    return ("", value) if isinstance(value, list) else ("", [])


def _claims(contents: Contents) -> bool:
    return any(
        _is_run(value) or any(map(_is_run, _runs(value)[1][:3])) for value in contents.values
    )


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.records():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        if _is_run(value):
            yield from _run(place, value)
            continue
        path, runs = _runs(value)
        if not runs:
            yield Unreadable(place, "has no runs")
        for at, run in enumerate(runs):
            where = Place(place.file, place.line, f"{place.path}{path}[{at}]")
            if _is_run(run):
                yield from _run(where, run)
            else:
                yield Unreadable(where, "is no run of a task")


def _run(place: Place, run: dict[str, Any]) -> Iterator[Item]:
    key = _key(run) or ""
    where = Place(place.file, place.line, f"{place.path}.{key}")
    try:
        messages = chat.checked(run[key])
    except Broken as error:
        yield Unreadable(where, str(error))
        return
    ids = [name(run.get(part)) for part in ("task_id", "trial")]
    yield from unrolled(messages, where, conversation="/".join(filter(None, ids)) or None)


FORMAT = Format("tau_bench", "trajectories of τ-bench", _claims, _read)
