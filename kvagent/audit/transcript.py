"""What does a transcript hold, whatever wrote it?

Every format becomes a stream of requests: what one model call was sent, what came back, and what
the server counted. A log has them as they were; a session, which is one list of messages, is
unrolled into the requests that its agent must have sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: a file, its line from 1 (None: the file is one document), and the
    path within that document or line, as in ``[3].request.messages``."""

    file: str
    line: int | None = None
    path: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        return f"{self.file}{line}{' ' + self.path if self.path else ''}"


@dataclass(frozen=True, slots=True)
class Reported:
    """The token counts that the transcript has of one call; None is what it does not say.

    ``prompt_tokens`` includes ``cached_tokens``, as with OpenAI: where a maker counts them apart
    (Anthropic), they are added here.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    cache_write_tokens: int | None = None
    """Tokens that the maker charged for being cached; they are prompt tokens that were prefilled."""


@dataclass(frozen=True, slots=True)
class Request:
    """One model call.

    Messages and tools are in OpenAI's chat form, whatever the transcript's own. They are the dicts
    of the transcript itself where it has that form: read them, never write them.
    """

    place: Place
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """The request's other keys: model, tool_choice, chat_template_kwargs, ..."""
    replies: Sequence[Mapping[str, Any]] = ()
    """What came back, one message a choice; none where the transcript does not have it."""
    reported: Reported = field(default_factory=Reported)
    error: str | None = None
    """What the server said instead of a reply."""
    conversation: str | None = None
    """The id that the transcript gives the conversation, session, run or sample."""
    time_s: float | None = None
    """When it was sent, in seconds since 1970."""
    complete: frozenset[str] = frozenset({"system", "tools"})
    """What of the head the transcript has: without "tools", say, it does not tell them."""
    unrolled: bool = False
    """True: the transcript is a list of messages, and this is what must have been sent."""
    departs: str | None = None
    """Why the prompt is not the conversation's one before with more behind it, where the transcript
    tells: "branch" (the user went back), "compaction", "clearing" (of results)."""


@dataclass(frozen=True, slots=True)
class Hashed:
    """One model call of a trace that has no text: a hash for each block of its prompt."""

    place: Place
    blocks: Sequence[int]
    block_size: int
    """Tokens a block."""
    prompt_tokens: int
    completion_tokens: int | None = None
    conversation: str | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something in a transcript that could not be read, and why, in one sentence."""

    place: Place
    why: str
    is_end: bool = False
    """Whether the file breaks off there: nobody knows what came after."""


Item = Request | Hashed | Unreadable


class NoTranscript(Exception):
    """A file is no transcript that any format knows: what it looks like, what was expected."""


class CannotRead(NoTranscript):
    """A file may be a transcript, but nobody can tell: why it is not read here, and what helps."""
