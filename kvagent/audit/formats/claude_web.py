"""Is this a session of Claude Code on the web, exported as one document?

It has the lines of a local session under ``loglines``, most without the one before each named: they
follow one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvagent.audit.formats.claude_code import Session
from kvagent.audit.formats.contents import Contents, kind
from kvagent.audit.formats.fields import items
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.transcript import Item, Place, Unreadable


def _is_export(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("loglines"), list)


def _claims(contents: Contents) -> bool:
    return any(map(_is_export, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        if not _is_export(value):
            yield Unreadable(place, 'has no list of "loglines"')
            continue
        session = Session()
        for at, line in enumerate(items(value["loglines"])):
            where = Place(place.file, place.line, f"{place.path}.loglines[{at}]")
            if not isinstance(line, dict):
                yield Unreadable(where, f"is {kind(line)}, not an object")
                continue
            try:
                session.add(where, line)
            except Broken as error:
                yield Unreadable(where, str(error))
        yield from session.requests()


FORMAT = Format("claude_web", "a session of Claude Code on the web", _claims, _read)
