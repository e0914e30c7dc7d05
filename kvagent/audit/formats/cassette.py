"""Is this a VCR cassette, and which of its calls went to a model?

A document in YAML, or in JSON, with the exchanges of HTTP that a test recorded. Bodies stand there
as text, as bytes, packed, or as what they say; answers that were streamed are put together.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats import exchange
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects.call import Answered
from kvagent.audit.formats.fields import items, mapping, string, tokens
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken, parsed_text
from kvagent.audit.transcript import Item, Place, Unreadable

_OPENING = re.compile(rb"^interactions:\s*$", re.MULTILINE)
# Other endpoints that take the same bodies.
_NO_CALLS = re.compile(r"/(embeddings|moderations|count_tokens|input_tokens|batches)\b")
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
        value = _yaml(contents.raw)
    except Broken as error:
        yield Unreadable(place, str(error))
        return
    yield from _interactions(place, mapping(value))


def _yaml(raw: bytes) -> Any:
    """The value of a document in YAML, of JSON's types only. Raises ``Broken``."""
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise Broken("is YAML, which takes PyYAML to read: install kvagent[audit]") from None
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
    for at, interaction in enumerate(items(cassette.get("interactions"))):
        interaction = mapping(interaction)
        request, response = (
            mapping(interaction.get("request")),
            mapping(interaction.get("response")),
        )
        if _NO_CALLS.search((string(request.get("uri")) or "")[:2000]):
            continue
        body = _body(request)
        if isinstance(body, str):
            try:
                body = parsed_text(body)
            except Broken:
                continue
        found = exchange.body_of(body) if isinstance(body, dict) else None
        if found is None:
            continue  # not a call of a model
        where = Place(place.file, place.line, f"{place.path}.interactions[{at}]")
        try:
            asked = found.dialect.asked(found.body)
        except Broken as error:
            yield Unreadable(where, str(error))
            continue
        yield exchange.made(
            where,
            asked.messages,
            asked.tools,
            asked.options,
            _answered(response),
            exchange.conversation_of(found.body),
            None,
            whole=asked.complete,
            wire=True,
        )


def _answered(response: Mapping[str, Any]) -> Answered:
    body = _body(response)
    answered = exchange.answered_by(body) or Answered()
    status = response.get("status")
    code = tokens(status.get("code") if isinstance(status, dict) else status) or 0
    if code >= 400 and answered.error is None:
        said = body if isinstance(body, str) else ""
        return Answered(error=said[:500] or f"status {code}")
    return answered


def _body(message: Mapping[str, Any]) -> Any:
    """The body of a request or a response."""
    if message.get("parsed_body") is not None:
        return message["parsed_body"]
    body = message.get("body", message.get("content"))
    if isinstance(body, dict) and "string" in body:
        body = body["string"]
    if isinstance(body, bytes):
        return _unpacked(body).decode("utf-8", "replace")
    return body


def _unpacked(body: bytes) -> bytes:
    if not body.startswith(b"\x1f\x8b"):
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, _LARGEST)
    except zlib.error:
        return b""


FORMAT = Format("cassette", "a VCR cassette", _claims, _read)
