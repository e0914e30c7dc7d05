"""How is an event told in a file?

As a line of JSON: the line of its request, the event's name, its fields. Nothing of a prompt.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import orjson

from kvagent.events import Event
from kvagent.offline import place


def as_json(number: int, event: Event) -> bytes:
    """The event of the request in line ``number``, with its line end."""
    told: dict[str, Any] = {"line": number, "event": type(event).__name__}
    for field in fields(event):
        value = getattr(event, field.name)
        told[field.name] = place(value) if isinstance(value, BaseException) else value
    return orjson.dumps(told) + b"\n"
