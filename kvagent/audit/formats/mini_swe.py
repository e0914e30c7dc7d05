"""Is this a trajectory of mini-SWE-agent, and which requests did it send?

One document with the messages of the session; those of the model carry the whole answer with its
counts. The first versions wrote a bare list of messages, which is read as any such list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.dialects import answering, chat
from kvagent.audit.formats.fields import mapping, name, seconds, string
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.formats.unroll import unrolled
from kvagent.audit.transcript import Item, Place, Reported, Unreadable

_OWN = ("extra", "timestamp")


def _is_trajectory(value: Any) -> bool:
    return isinstance(value, dict) and (
        (string(value.get("trajectory_format")) or "").startswith("mini-swe-agent")
        or (
            isinstance(value.get("messages"), list) and "mini_version" in mapping(value.get("info"))
        )
    )


def _claims(contents: Contents) -> bool:
    return any(map(_is_trajectory, contents.values))


def _read(contents: Contents) -> Iterator[Item]:
    for each in contents.objects():
        if isinstance(each, Unreadable):
            yield each
            continue
        place, value = each
        where = Place(place.file, place.line, f"{place.path}.messages")
        try:
            messages = chat.checked(value.get("messages"))
        except Broken as error:
            yield Unreadable(where, str(error))
            continue
        reported = {at: _reported(message) for at, message in enumerate(messages)}
        times = {
            at: seconds(message.get("timestamp") or mapping(message.get("extra")).get("timestamp"))
            for at, message in enumerate(messages)
        }
        sent = [
            {key: part for key, part in message.items() if key not in _OWN}
            for message in messages
            if message["role"] != "exit"  # what the agent told itself
        ]
        yield from unrolled(
            sent,
            where,
            conversation=name(value.get("instance_id")),
            reported=reported,
            times=times,
        )


def _reported(message: Mapping[str, Any]) -> Reported:
    """The counts of the answer that a message of the model carries."""
    answer = mapping(mapping(message.get("extra")).get("response"))
    dialect = answering(answer)
    return Reported() if dialect is None else dialect.answered(answer).reported


FORMAT = Format("mini_swe", "a trajectory of mini-SWE-agent", _claims, _read)
