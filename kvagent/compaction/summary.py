"""What is a summarizer, and what does it answer?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """What a model wrote when it was asked for a narrative."""

    text: str
    finish_reason: str | None = "stop"
    """As the server said; only ``"stop"`` is a finished answer."""
    tool_calls: Sequence[Any] = ()
    counts: Mapping[str, Any] = field(default_factory=dict)
    """The reply's ``usage`` and ``timings`` as the server sent them; empty where none was asked."""


class SummaryFailed(Exception):
    """No summary could be had; the facts stand alone."""


class Summarizer(Protocol):
    """Any callable that takes a chat request and gives back what was answered.

    Raises:
        SummaryFailed: nothing usable was answered, for the reason given.
    """

    def __call__(self, request: dict[str, Any], /) -> SummaryReply | str: ...


def reply_of(answer: SummaryReply | str) -> SummaryReply:
    """The answer of a summarizer, which may be a bare text."""
    return SummaryReply(answer) if isinstance(answer, str) else answer
