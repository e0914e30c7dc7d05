"""Was this request refused because it is too long, and by how much?

Each server's file has the sentences; here they are looked for. The text is searched as it is, not
parsed first: gateways put a server's error, quoted once or twice, into a string of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvagent.backends import llamacpp, openai, vllm
from kvagent.backends.values import Overflow

# Case does not matter: gateways change it.
_WORDINGS = tuple(
    (wording, re.compile(pattern, re.IGNORECASE))
    for server in (vllm, llamacpp, openai)
    for wording, pattern in server.OVERFLOWS.items()
)
_FIELDS = {name: re.compile(pattern) for name, pattern in llamacpp.OVERFLOW_FIELDS.items()}

# An error says what is wrong at its beginning; further on it may quote the request.
_LONGEST_ERROR = 8_000

# Where validation errors quote the rejected request, in which an agent may well be talking about
# someone else's overflow.
_QUOTED_REQUEST = re.compile(r"""["']input\\*["']\s*:""")

_BLANKS = re.compile(r"(?:\s|\\+[nrt])+")


def overflow_of(status: int, body: bytes | str | Mapping[str, Any]) -> Overflow | None:
    """The overflow that an answer reports, or ``None`` if it reports something else.

    ``body`` is the answer as it came, or a parsed one. Below status 400 only a mapping with an
    ``error`` counts: that is an error event within a stream, whose status was sent long before.

    The expressions' groups: ``prompt`` and ``tools`` add up to the prompt; a ``floor`` that
    matched makes it a lower bound; ``bound`` is a number of tokens that the prompt surpasses;
    ``cut`` is a count that may have been stopped one token above the limit; ``window``; and
    ``output``, the tokens asked for. Never raises.
    """
    said = _text(status, body)
    if said is None:
        return None
    for wording, pattern in _WORDINGS:
        match = pattern.search(said)
        if match is not None:
            return _overflow(wording, match, said)
    return None


def _text(status: int, body: bytes | str | Mapping[str, Any]) -> str | None:
    if isinstance(body, Mapping):
        error = body.get("error")
        if not error and status < 400:
            return None
        said = _spelled(error or body)
    elif status < 400:
        return None
    elif isinstance(body, bytes):
        said = body[:_LONGEST_ERROR].decode("utf-8", "replace")
    else:
        said = _spelled(body)
    said = _QUOTED_REQUEST.split(said[:_LONGEST_ERROR], maxsplit=1)[0]
    return _BLANKS.sub(" ", said)


def _spelled(value: object) -> str:
    """The value as Python writes it; the expressions do not mind which quotes stand in it."""
    try:
        return str(value)
    except RecursionError:
        return ""


def _overflow(wording: str, match: re.Match[str], said: str) -> Overflow:
    groups = match.groupdict()

    def number(name: str) -> int | None:
        value = groups.get(name)
        return None if value is None else int(value)

    prompt, window, output = number("prompt"), number("window"), number("output")
    at_least = groups.get("floor") is not None
    tools, bound, cut = number("tools"), number("bound"), number("cut")
    if prompt is not None and tools is not None:
        prompt += tools
    if bound is not None:
        prompt, at_least = bound + 1, True
    if cut is not None:
        prompt, at_least = cut, window is not None and cut == window - (output or 0) + 1
    return Overflow(
        prompt_tokens=prompt if prompt is not None else _field("prompt", said),
        at_least=at_least,
        window=window if window is not None else _field("window", said),
        wording=wording,
        output_tokens=output,
    )


def _field(name: str, said: str) -> int | None:
    match = _FIELDS[name].search(said)
    return None if match is None else int(match["value"])
