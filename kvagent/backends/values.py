"""What does kvagent know about a server, and about one of its answers?

Plain values, the same for every server. How they are read off the wire is the business of the
server's own file beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of one reply, as the server says them; ``None`` is what it does not say.

    ``prompt_tokens`` includes ``cached_tokens``. ``prompt_ms`` is the server's own time for the
    prefill, ``decode_ms`` for the reply, in milliseconds. An unknown ``cached_tokens`` is never 0:
    0 says that nothing was cached, and a server that keeps silent says no such thing.
    """

    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    prompt_ms: float | None
    decode_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Overflow:
    """A refusal because the request does not fit into the window, in tokens.

    ``prompt_tokens`` is a floor where ``at_least`` is true (a tokenizer that stopped one token
    after the limit). ``output_tokens`` is the room that the request asked for, where the refusal
    names it: such a prompt has to fit into ``window - output_tokens``. ``wording`` is a stable
    short name of the sentence that was recognised, its server first.
    """

    prompt_tokens: int | None
    at_least: bool
    window: int | None
    wording: str
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """What one server serves, and what it tells about its cache.

    ``window`` is how many tokens one conversation may have, prompt and reply together: already
    per slot, so never to be divided by ``slots``. Both servers refuse a prompt that fills it to
    the last token. ``block_size`` is the number of tokens that are cached or lost together,
    ``None`` where reuse is by the token or not known. ``reports_cached`` is ``None`` as long as
    it is not known whether replies tell their cached tokens. ``advice`` is one sentence on what
    to switch on at the server, if something should be. ``template`` is the text of its chat
    template, where it tells it.
    """

    kind: Literal["vllm", "llama.cpp", "openai"]
    version: str | None = None
    model: str | None = None
    window: int | None = None
    block_size: int | None = None
    slots: int | None = None
    reports_cached: bool | None = None
    advice: str | None = None
    template: str | None = field(default=None, repr=False, compare=False)


Fault = Literal[
    "block_large",
    "cached_not_reported",
    "caching_off",
    "metrics_closed",
    "pool_small",
    "slots_few",
    "window_small",
]
"""What can be wrong with a server that serves agents; each server's file says what mends it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a server says of its cache and its work at this moment; ``None`` is what it does not say.

    ``caching`` is whether prefixes are kept at all. ``kv_tokens`` is how many tokens of KV cache
    there are for all conversations together, ``blocks`` in how many pieces. ``running`` and
    ``waiting`` are requests. Of all prompt tokens since the start, ``asked_tokens``,
    ``hit_tokens`` came from the cache.
    """

    caching: bool | None = None
    kv_tokens: int | None = None
    blocks: int | None = None
    running: int | None = None
    waiting: int | None = None
    asked_tokens: int | None = None
    hit_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request may ask of the cache beside its prompt.

    ``slot`` is the slot to be computed in, ``salt`` separates what may be shared from what may
    not, ``keep`` asks for the slot's tokens to be used where the server is set not to.
    """

    slot: int | None = None
    salt: str | None = None
    keep: bool = False


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request that a flow asks its driver for: a GET, or a POST of ``json`` where there is some.

    ``path`` begins with a slash. It is appended to the root of the server (``root``), or to the
    client's own base URL, the one that ends in ``/v1`` (``api``). It goes out with the client's
    own key: a llama.cpp with a key answers every GET without it with 401.
    """

    path: str
    base: Literal["root", "api"]
    json: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a `Fetch`; ``status`` 0 is no answer at all (refused, timed out)."""

    status: int
    body: bytes
