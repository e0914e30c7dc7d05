"""Which format is a file in, and what is in it?

Recognised by content, never by name. The most particular formats are asked first: what many files
look like, a list of messages say, is claimed last. ``--from NAME`` overrides it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kvagent.audit.formats import (
    anthropic,
    cassette,
    claude_code,
    claude_web,
    codex,
    har,
    inspect_log,
    langchain,
    langfuse,
    litellm,
    mini_swe,
    mooncake,
    openai_chat,
    openai_functions,
    openai_responses,
    openhands,
    openhands_sdk,
    otlp,
    pi,
    swe_agent,
    tau_bench,
    toolbench,
    weka,
)
from kvagent.audit.formats.contents import Contents
from kvagent.audit.formats.format import Format
from kvagent.audit.formats.looks import looks_like
from kvagent.audit.names import called
from kvagent.audit.source import opened
from kvagent.audit.transcript import Item, NoTranscript

FORMATS: tuple[Format, ...] = (
    claude_code.FORMAT,
    claude_web.FORMAT,
    codex.FORMAT,
    pi.FORMAT,
    openhands.FORMAT,
    openhands_sdk.FORMAT,
    inspect_log.FORMAT,
    tau_bench.FORMAT,
    swe_agent.FORMAT,
    mini_swe.FORMAT,
    toolbench.FORMAT,
    langfuse.FORMAT,
    otlp.FORMAT,
    langchain.FORMAT,
    cassette.FORMAT,
    har.FORMAT,
    mooncake.FORMAT,
    weka.FORMAT,
    litellm.FORMAT,
    openai_responses.FORMAT,
    anthropic.FORMAT,
    openai_functions.FORMAT,
    openai_chat.FORMAT,
)
"""All formats, in the order in which they are asked."""

BY_NAME = {each.name: each for each in FORMATS}


def recognise(contents: Contents) -> Format:
    """The format of a file. Raises ``NoTranscript``."""
    for each in FORMATS:
        if each.claims(contents):
            return each
    raise NoTranscript(
        f"{called(contents.source.name)} is no transcript: it looks like {looks_like(contents)}; "
        "expected was a list of chat messages, recorded requests, or a session of an agent."
    )


def read(path: str | os.PathLike[str], format: str | None = None) -> Iterator[Item]:
    """What is in a transcript, one request after the other.

    Args:
        path: a file, or ``-`` for standard input.
        format: the name of its format; None: its content says.

    Raises:
        NoTranscript: it cannot be opened, or no format knows it; or there is no such format.
    """
    if format is not None and format not in BY_NAME:
        raise NoTranscript(f"there is no format {format}; there are {', '.join(sorted(BY_NAME))}.")
    with opened(path) as source:
        contents = Contents.of(source)
        known = recognise(contents) if format is None else BY_NAME[format]
        yield from known.read(contents)
