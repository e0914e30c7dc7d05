"""How does llama.cpp's server describe itself, time its replies and refuse a prompt?

It needs no option: its replies always say how many tokens came from the cache.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from kvagent.backends.openai import Listing
from kvagent.backends.values import Condition, Fault, Fetch, Fetched, Server, Wish
from kvagent.backends.wire import (
    count,
    json_list,
    json_object,
    mapping,
    metrics,
    milliseconds,
    size,
    text,
    whole,
)
from kvagent.events import MissCause

PROPS = Fetch("/props", "root")
SLOTS = Fetch("/slots", "root")
METRICS = Fetch("/metrics", "root")

PROMPT_KEYS = frozenset(
    {
        "chat_template_kwargs",  # variables of the template, today's date among them
        "reasoning_effort",  # becomes a template variable; "none" switches thinking off
        "add_generation_prompt",  # the prompt's last tokens
        "continue_final_message",  # the last message stays open
        "cache_prompt",  # false: the slot's tokens are not reused
        "id_slot",  # another slot holds another conversation
        "lora",  # other adapters: a slot starts anew
    }
)

_OWNER = "llamacpp"

CROWDED_OUT: MissCause = "slot_lost"
"""Another conversation was given the slot."""

_N = "[0-9]{1,12}"

OVERFLOWS: Mapping[str, str] = {
    "llamacpp.request_tokens": (
        rf"request \((?P<prompt>{_N}) tokens\) exceeds the available context size "
        rf"\((?P<window>{_N}) tokens\)"
    ),
    # Builds of 2025: the numbers stand in the fields beside the message, if at all.
    "llamacpp.available_context": r"exceeds the available context size",
    # All slots share one pool, and it ran dry: no single prompt is too long by itself.
    "llamacpp.pool_exceeded": r"context size has been exceeded",
    "llamacpp.input_larger": (
        rf"input \((?P<prompt>{_N}) tokens\) is larger than the max context size"
        rf"(?: \((?P<window>{_N}) tokens\))?"
    ),
    # The same server's Python bindings.
    "llamacpp.python": (
        rf"requested tokens \((?P<prompt>{_N})\) exceed context window of (?P<window>{_N})"
    ),
    # A reply that reached the end of its slot, in builds that took this for an error.
    "llamacpp.context_shift": r"context shift is disabled",
    "llamacpp.error_type": r"exceed_context_size_error",
}
"""Name → regular expression, tried in this order; `overflow_of` explains the groups."""

_QUOTED = r"""[\\"'\s]*:[\\"'\s]*"""
OVERFLOW_FIELDS = {
    "prompt": rf"n_prompt_tokens{_QUOTED}(?P<value>{_N})",
    "window": rf"n_ctx{_QUOTED}(?P<value>{_N})",
}
"""Where an error has the two numbers outside its message, however deep it is quoted."""


REMEDIES: Mapping[Fault, str] = {
    "caching_off": 'Send "cache_prompt": true, or start llama-server without --no-cache-prompt.',
    "window_small": (
        "Start llama-server with a larger -c: the slots share it, so it is slots x window, "
        "unless --kv-unified lets each slot have all of it."
    ),
    "slots_few": (
        "Start llama-server with as many slots (-np) and so many times the context (-c); else keep "
        "its host prompt cache on (--cache-ram), large enough for every agent's prompt."
    ),
    "metrics_closed": "Start llama-server with --metrics.",
}


class Timings(NamedTuple):
    """``timings`` of a reply: tokens from the cache, tokens prefilled, tokens generated."""

    cached: int | None
    prefilled: int | None
    predicted: int | None
    prompt_ms: float | None
    predicted_ms: float | None


def timings(reply: Mapping[str, Any]) -> Timings:
    """``timings`` of a completion or of a stream's last chunk, present without ``usage`` too."""
    said = mapping(reply.get("timings"))
    return Timings(
        cached=count(said.get("cache_n")),
        prefilled=count(said.get("prompt_n")),
        predicted=count(said.get("predicted_n")),
        prompt_ms=milliseconds(said.get("prompt_ms")),
        predicted_ms=milliseconds(said.get("predicted_ms")),
    )


def lists(found: Listing) -> bool:
    """Whether this list of models is llama.cpp's."""
    return found.owner == _OWNER


def probe(found: Listing, model: str | None) -> Generator[Fetch, Fetched, Server | None]:
    """One GET, a second one at a router of several models; ``None`` if it is not llama.cpp.

    ``n_ctx`` is the context of one slot, both here and in the list of models.
    """
    props = json_object((yield PROPS))
    if not _is_props(props) and not lists(found):
        return None
    if _window(props) is None and model is not None and props:
        # A router has no window of its own. Asking for the model's must not load it.
        of_model = Fetch(f"{PROPS.path}?model={quote(model, safe='')}&autoload=false", PROPS.base)
        props = {**props, **json_object((yield of_model))}
    return Server(
        kind="llama.cpp",
        version=text(props.get("build_info")),
        model=text(found.entry.get("id")) or text(props.get("model_alias")) or model,
        window=_window(props) or size(mapping(found.entry.get("meta")).get("n_ctx")),
        slots=size(props.get("total_slots")),
        reports_cached=True,
        template=text(props.get("chat_template")),
    )


def condition() -> Generator[Fetch, Fetched, Condition]:
    """Two GETs, which an operator may have closed. Prefixes are always kept, in slots."""
    slots = [mapping(slot) for slot in json_list((yield SLOTS))]
    said = metrics((yield METRICS))
    asked, hit = (
        said.get(f"llamacpp:prompt_tokens{name}_total") for name in ("", "_cached")
    )  # the first one leaves out what was cached
    return Condition(
        caching=True,
        running=sum(bool(slot.get("is_processing")) for slot in slots) if slots else None,
        waiting=whole(said.get("llamacpp:requests_deferred")),
        asked_tokens=None if asked is None or hit is None else whole(asked + hit),
        hit_tokens=whole(hit),
    )


def hint_fields(wish: Wish) -> dict[str, Any]:
    """A request waits for its slot if that is at work."""
    fields: dict[str, Any] = {} if wish.slot is None else {"id_slot": wish.slot}
    return {**fields, "cache_prompt": True} if wish.keep else fields


def _is_props(props: Mapping[str, Any]) -> bool:
    return "default_generation_settings" in props and (
        "build_info" in props or "total_slots" in props
    )


def _window(props: Mapping[str, Any]) -> int | None:
    return size(mapping(props.get("default_generation_settings")).get("n_ctx"))
