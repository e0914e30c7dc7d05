"""Did text of an old message, or the whole of it, move to a newer one?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvagent.audit.difference import loaded
from kvagent.audit.sent import Known
from kvagent.chat import text_of
from kvagent.moved import NOTE_ROLES, part_moved, whole_moved

# Moved text is looked for in so many of the newest messages.
_LATER = 8
_WHOLE_ROLES = ("user", "system", "developer")


def is_part_moved(old: Known, new: Known, behind: Sequence[Known]) -> bool:
    """Whether ``new`` is ``old`` less text that one of the newest messages behind it has."""
    if old.role != new.role or old.role not in NOTE_ROLES or len(new.raw) >= len(old.raw):
        return False
    before = loaded(old.raw)
    return part_moved(before, loaded(new.raw), _newest(behind), text_of(before).strip())


def is_whole_moved(old: Known, behind: Sequence[Known]) -> bool:
    """Whether a message comes again as one of the newest behind its place."""
    return old.role in _WHOLE_ROLES and whole_moved(loaded(old.raw), old.name, _newest(behind))


def _newest(messages: Sequence[Known]) -> list[Mapping[str, Any]]:
    """The newest messages, but for the model's."""
    return [
        {"role": message.role, **loaded(message.raw)}
        for message in messages[-_LATER:]
        if message.role != "assistant"
    ]
