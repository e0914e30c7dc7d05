"""Is this a VCR cassette, and which of its calls went to a model?

A document in YAML, or in JSON, with the exchanges of HTTP that a test recorded. Bodies stand there
as text, as bytes, packed, or as what they say; answers that were streamed are put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats import http_call
from kvagent.audit.formats.contents import BREAKS_OFF, Contents
from kvagent.audit.formats.fields import items, mapping, string
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.names import called
from kvagent.audit.transcript import CannotRead, Item, Place, Unreadable

_OPENING = re.compile(rb"^interactions:\s*$", re.MULTILINE)
_LARGEST = 1 << 26
_MOST_VALUES = 20_000_000
_DEEPEST = 100


def _is_cassette(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("interactions"), list)
        and all("request" in mapping(each) for each in value["interactions"][:3])
    )


def _claims(contents: Contents) -> bool:
    if contents.values:
        return any(map(_is_cassette, contents.values))
    return _OPENING.search(contents.head) is not None and b"request:" in contents.head


def _read(contents: Contents) -> Iterator[Item]:
    place = Place(contents.source.name)
    if contents.values:
        for each in contents.objects():
            if isinstance(each, Unreadable):
                yield each
            else:
                yield from _interactions(*each)
        return
    if not contents.raw:
        yield Unreadable(place, contents.why)
        return
    try:
        value = _yaml(place.file, contents.raw)
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    yield from _interactions(place, mapping(value))
    if contents.source.breaks_off:  # which YAML need not show
        yield Unreadable(place, BREAKS_OFF, is_end=True)


def _yaml(name: str, raw: bytes) -> Any:
    """The value of a document in YAML, of JSON's types only. Raises ``Broken``, ``CannotRead``."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError as error:
        raise CannotRead(
            f'{called(name)} is a cassette in YAML, which takes PyYAML: pip install "kvagent[audit]".'
        ) from error
    if len(raw) > _LARGEST:
        raise Broken(f"is YAML of more than {_LARGEST >> 20} MiB")

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads what looks like a date as the text that it is."""

    Loader.add_constructor(
        "tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node)
    )
    try:
        value = yaml.load(raw, Loader=Loader)  # noqa: S506 - a subclass of the safe one
    except RecursionError:
        raise Broken("is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise Broken(f"is not YAML: {' '.join(str(error).split())[:200]}") from None
    return _tidy(value, {}, 0)[0]


def _tidy(value: Any, done: dict[int, tuple[Any, int] | None], depth: int) -> tuple[Any, int]:
    """The value with strings as keys, and how many values it would be written out.

    A name for a value may be used many times, and values within values: a short document can be
    endless when read as a tree. Raises ``Broken`` for such a one.
    """
    if not isinstance(value, dict | list):
        return value, 1
    if id(value) in done:
        known = done[id(value)]
        if known is None:
            raise Broken("holds itself")
        return known
    if depth > _DEEPEST:
        raise Broken("is nested too deeply")
    done[id(value)] = None
    size = 1
    made: Any
    if isinstance(value, dict):
        made = {}
        for key, item in value.items():
            made[key if isinstance(key, str) else str(key)], more = _tidy(item, done, depth + 1)
            size += more
    else:
        made = []
        for item in value:
            tidied, more = _tidy(item, done, depth + 1)
            made.append(tidied)
            size += more
    if size > _MOST_VALUES:
        raise Broken("repeats itself beyond what can be read")
    done[id(value)] = made, size
    return made, size


def _interactions(place: Place, cassette: Mapping[str, Any]) -> Iterator[Item]:
    for at, value in enumerate(items(cassette.get("interactions"))):
        interaction = mapping(value)
        request = mapping(interaction.get("request"))
        response = mapping(interaction.get("response"))
        status = response.get("status")
        yield from http_call.call(
            Place(place.file, place.line, f"{place.path}.interactions[{at}]"),
            string(request.get("uri")) or "",
            _body(request),
            _body(response),
            status.get("code") if isinstance(status, dict) else status,
        )


def _body(message: Mapping[str, Any]) -> Any:
    """The body of a request or a response."""
    if message.get("parsed_body") is not None:
        return message["parsed_body"]
    body = message.get("body", message.get("content"))
    if isinstance(body, dict) and "string" in body:
        body = body["string"]
    if isinstance(body, bytes):
        return http_call.decoded(body)
    return body


FORMAT = Format("cassette", "a VCR cassette", _claims, _read)
