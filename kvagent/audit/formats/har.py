"""Is this a HAR file, and which of its calls went to a model?

HTTP Archive 1.2: what browsers, mitmproxy, Playwright and Proxyman write of the exchanges that they
saw. Bodies stand there as text, or as bytes in base64.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats import http_call
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.fields import items, mapping, seconds, string
from kvagent.audit.formats.format import Format
from kvagent.audit.transcript import Item, Place, Unreadable


def _is_har(value: Any) -> bool:
    log = mapping(mapping(value).get("log"))
    return isinstance(log.get("entries"), list) and all(
        "request" in mapping(each) for each in log["entries"][:3]
    )


def _claims(contents: Contents) -> bool:
    return any(map(_is_har, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
        elif not _is_har(each[1]):
            yield Unreadable(each[0], "has no log of entries")
        else:
            yield from _entries(*each)


def _entries(place: Place, har: Mapping[str, Any]) -> Iterator[Item]:
    timed: list[tuple[float, int, float | None, dict[str, Any]]] = []
    last = 0.0
    for at, value in enumerate(items(har["log"]["entries"])):
        entry = mapping(value)
        time_s = seconds(entry.get("startedDateTime"))
        last = last if time_s is None else time_s
        timed.append((last, at, time_s, entry))
    # Some recorders write an exchange when it is over. One without a time stays behind its neighbour.
    for _, at, time_s, entry in sorted(timed, key=lambda each: each[:2]):
        request, response = mapping(entry.get("request")), mapping(entry.get("response"))
        yield from http_call.call(
            Place(place.file, place.line, f"{place.path}.log.entries[{at}]"),
            string(request.get("url")) or "",
            _body(mapping(request.get("postData"))),
            _body(mapping(response.get("content"))),
            response.get("status"),
            time_s,
        )


def _body(kept: Mapping[str, Any]) -> str | None:
    """The text of a request's or a response's body; None where it was not kept."""
    text = string(kept.get("text"))
    if text is None or kept.get("encoding") != "base64":
        return text
    try:
        return http_call.decoded(base64.b64decode(text))
    except ValueError:
        return None


FORMAT = Format("har", "a HAR file", _claims, _read)
