"""How does the OpenAI API itself name its counts, its models and its refusals?

Both servers speak this dialect; their own files add what they say beyond it. It also stands for
every compatible server that is neither of the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvagent.backends.values import Fetch, Fetched, Server
from kvagent.backends.wire import count, json_object, mapping, size, text

MODELS = Fetch("/models", "api")

PROMPT_KEYS = frozenset(
    {
        "model",  # other weights, or another LoRA adapter: nothing cached applies
        "functions",  # the older form of tools, rendered into the head like them
        "reasoning_effort",  # both servers hand it to the chat template
        "prompt_cache_key",  # OpenAI routes by it: another key is another machine's cache
    }
)
"""Request keys that shape the prompt or the cache key, beside messages and tools.

Not among them, here and in the other files: ``tool_choice`` and ``response_format``. Agents change
them at will, and with the servers' defaults the prompt stays the same.
"""

_OWNERS = frozenset({"openai", "openai-internal", "system"})

# The window under the names that compatible servers and routers give it.
_WINDOW_KEYS = ("max_model_len", "context_length", "context_window", "max_context_length")

NOT_REPORTED = (
    "The server does not say how many prompt tokens came from its cache; "
    "if it is vLLM, start it with --enable-prompt-tokens-details."
)

_N = "[0-9]{1,12}"
_LIMIT = rf"maximum context length is (?P<window>{_N}) tokens"

OVERFLOWS: Mapping[str, str] = {
    # What was requested is itemised in several ways, by vLLM up to 0.10 and by routers as well: 9000
    # in the messages, 64 in the completion; in your prompt, for the completion; of text input, of
    # tool input, in the output.
    "openai.requested": (
        rf"{_LIMIT}[.,] however,? you requested (?:about )?{_N} tokens "
        rf"\((?P<prompt>{_N}) (?:in|of) (?:the messages|your prompt|text input)"
        rf"(?:, (?P<tools>{_N}) (?:in the functions|of tool input))?"
        rf"[,;] (?:and )?(?P<output>{_N}) (?:in|for) the (?:completion|output)"
    ),
    "openai.requested_in_messages": (
        rf"{_LIMIT}[.,] however,? you requested (?P<prompt>{_N}) tokens in the messages"
    ),
    "openai.messages_resulted": (
        rf"{_LIMIT}[.,] however,? your messages resulted in (?P<prompt>{_N}) tokens"
    ),
    "openai.configured_limit": (
        rf"input tokens exceed the configured limit of (?P<window>{_N}) tokens"
        rf"(?:\. your messages resulted in (?P<prompt>{_N}) tokens)?"
    ),
    # Anthropic's sentence, as gateways pass it on; Go writes ">" as an escape.
    "openai.prompt_too_long": (
        r"prompt is too long"
        rf"(?:: (?P<prompt>{_N}) tokens (?:>|\\+u003e) (?P<window>{_N}) maximum)?"
    ),
    "openai.maximum_context": _LIMIT,
    "openai.context_window": r"exceeds the context window of this model",
    "openai.context_length_exceeded": r"context_length_exceeded|ContextWindowExceededError",
}
"""Name → regular expression, tried in this order; `overflow_of` explains the groups."""


class Counts(NamedTuple):
    """Tokens of one reply; ``None`` is not said."""

    prompt: int | None
    cached: int | None
    completion: int | None


def counts(reply: Mapping[str, Any]) -> Counts:
    """``usage`` of a chat completion or of a stream's last chunk, ``null`` details included."""
    usage = mapping(reply.get("usage"))
    details = mapping(usage.get("prompt_tokens_details"))
    return Counts(
        prompt=count(usage.get("prompt_tokens")),
        cached=count(details.get("cached_tokens")),
        completion=count(usage.get("completion_tokens")),
    )


def has_usage(reply: Mapping[str, Any]) -> bool:
    """Whether the reply carries counts at all: a stream without ``include_usage`` does not."""
    return counts(reply).prompt is not None


class Listing(NamedTuple):
    """``GET /models``, and the entry in it of the model that is asked for."""

    entries: tuple[Mapping[str, Any], ...]
    entry: Mapping[str, Any]
    owner: str | None


def listing(answer: Fetched, model: str | None) -> Listing:
    """Reads the list of models; everything in it may be missing.

    Where the model's own entry is not there, a list of one still tells what is served: llama.cpp
    takes any name for the one model that it has.
    """
    data = json_object(answer).get("data")
    entries = tuple(mapping(entry) for entry in data) if isinstance(data, list) else ()
    entry = next((entry for entry in entries if model is not None and is_model(entry, model)), None)
    if entry is None:
        entry = entries[0] if len(entries) == 1 else {}
    owners = (text(each.get("owned_by")) for each in (entry, *entries))
    return Listing(entries, entry, next((owner for owner in owners if owner is not None), None))


def is_model(entry: Mapping[str, Any], model: str) -> bool:
    """Whether an entry of the list of models is this one, by its name or an alias."""
    aliases = entry.get("aliases")
    return entry.get("id") == model or (isinstance(aliases, list) and model in aliases)


def lists(found: Listing) -> bool:
    """Whether this list is OpenAI's own, so that no other server need be looked for."""
    return found.owner in _OWNERS or (found.owner or "").startswith(("org-", "user-"))


def server(found: Listing, model: str | None) -> Server:
    """What the list of models tells about a server that is only known to speak the API."""
    windows = (size(found.entry.get(key)) for key in _WINDOW_KEYS)
    return Server(
        kind="openai",
        model=text(found.entry.get("id")) or model,
        window=next((window for window in windows if window is not None), None),
    )
