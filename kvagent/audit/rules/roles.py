"""What does one call a message of a role?"""

from __future__ import annotations

_CALLED = {
    "user": "a user message",
    "assistant": "an answer of the model",
    "tool": "a tool result",
    "function": "a tool result",
    "system": "a system message",
    "developer": "a system message",
}


def called(role: object) -> str:
    """Within a sentence."""
    return _CALLED.get(str(role), "a message")


def called_first(role: object) -> str:
    """At the beginning of one."""
    name = called(role)
    return name[0].upper() + name[1:]
