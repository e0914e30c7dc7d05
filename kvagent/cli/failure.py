"""How does a command say what went wrong?

In one plain sentence on stderr, and with exit status 2. A command raises ``Failure``; the group
that runs the commands does the rest.
"""

from __future__ import annotations


class Failure(Exception):
    """What was wrong, where, and what to do: a sentence for the user, without a traceback."""


def because(error: OSError) -> str:
    """The system's reason in words, without the number and without a file's name."""
    return error.strerror or str(error) or type(error).__name__
