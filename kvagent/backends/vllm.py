"""How does vLLM describe itself, and how does it refuse a prompt that is too long?

Field names and sentences are those of vLLM 0.32, and of the older versions still in use.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from typing import Any

from kvagent.backends.openai import Listing
from kvagent.backends.values import Condition, Fault, Fetch, Fetched, Server, Wish
from kvagent.backends.wire import json_object, metrics, size, text, whole
from kvagent.events import MissCause

VERSION = Fetch("/version", "root")
METRICS = Fetch("/metrics", "root")

PROMPT_KEYS = frozenset(
    {
        "chat_template",  # renders everything
        "chat_template_kwargs",  # variables of the template: thinking, dates, kept reasoning
        "reasoning_effort",  # becomes a template variable, and sets enable_thinking
        "documents",  # rendered by templates for retrieval, before the messages
        "add_generation_prompt",  # the prompt's last tokens
        "continue_final_message",  # the last message stays open
        "add_special_tokens",  # the first token
        "truncate_prompt_tokens",  # cuts the head off: a window that slides with every turn
        "truncation_side",  # which end is cut
        "mm_processor_kwargs",  # how images become tokens
        "media_io_kwargs",  # how images are decoded before that
        "cache_salt",  # part of the first block's hash, so of every later one
        "prompt_logprobs",  # the cache is not read at all while these are asked for
    }
)

_OWNER = "vllm"

NOT_REPORTED = (
    "vLLM does not say how many prompt tokens came from its cache: "
    "start it with --enable-prompt-tokens-details."
)
CACHING_OFF = (
    "Prefix caching is switched off in this vLLM: start it without --no-enable-prefix-caching."
)

REMEDIES: Mapping[Fault, str] = {
    "caching_off": "Start vLLM without --no-enable-prefix-caching.",
    "cached_not_reported": "Start vLLM with --enable-prompt-tokens-details.",
    "window_small": "Start vLLM with a larger --max-model-len.",
    "pool_small": (
        "Give the cache more memory (--gpu-memory-utilization), make its tokens smaller "
        "(--kv-cache-dtype fp8), or keep more of it in host memory (--kv-offloading-size GIB)."
    ),
    "block_large": "Start vLLM with a smaller --block-size, or a longer --max-model-len.",
}

# Before this version a reply without cached tokens (a miss) left the details out as if the
# option were not set; since then 0 is reported as 0.
_ZERO_IS_REPORTED_SINCE = (0, 27)

# What a hit is rounded down to. The first two are set by the engine for models with several kinds
# of layers and often read "None"; block_size is always there.
_BLOCK_LABELS = ("cache_hit_alignment_tokens", "effective_attention_block_size", "block_size")

_CACHE_CONFIG = re.compile(rb"^vllm[:_]cache_config_info\{(.*)\}", re.MULTILINE)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_RELEASE = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})")

CROWDED_OUT: MissCause = "evicted"
"""Blocks make room for others, the least recently used first."""

_N = "[0-9]{1,12}"
_LIMIT = rf"maximum context length is (?P<window>{_N}) tokens"
_ASKED = rf"(?:you requested (?P<output>{_N}) output tokens and )?"

OVERFLOWS: Mapping[str, str] = {
    "vllm.prompt_contains": (
        rf"{_LIMIT}\. however, {_ASKED}your prompt contains "
        rf"(?P<floor>at least )?(?P<prompt>{_N}) input tokens"
    ),
    # So long a text that it is refused by its characters; it has more tokens than the bound.
    "vllm.prompt_characters": (
        rf"{_LIMIT}\. however, {_ASKED}your prompt contains {_N} characters "
        rf"\(more than {_N} characters, which is the upper bound for (?P<bound>{_N}) input tokens"
    ),
    "vllm.request_has": rf"{_LIMIT}\. however, your request has (?P<prompt>{_N}) input tokens",
    "vllm.max_tokens_too_large": (
        rf"{_LIMIT} and your request has (?P<prompt>{_N}) input tokens"
        rf"(?: \((?P<output>{_N}) (?:>|\\+u003e))?"
    ),
    "vllm.model_length": (
        rf"coder prompt \(length (?P<prompt>{_N})\) (?:plus the number of requested output tokens "
        rf"\(at least 1\) )?is longer than the maximum model length of (?P<window>{_N})"
    ),
    "vllm.input_length": (
        rf"input length \((?P<prompt>{_N})\) exceeds model.{{1,9}} maximum context length "
        rf"\((?P<window>{_N})\)"
    ),
    # "max_output_tokens=5000cannot be greater than max_total_tokens=max_total_tokens=4096" was
    # written so, without the blank and with the name twice.
    "vllm.max_tokens_over_window": (
        rf"max_[a-z_]*tokens=(?P<output>{_N}) ?cannot be greater than "
        rf"(?:[a-z_]+=)+(?P<window>{_N})"
    ),
    "vllm.input_passed": (
        rf"you passed (?P<cut>{_N}) input tokens and requested (?P<output>{_N}) output tokens\. "
        rf"however, the model.{{1,9}} context length is only (?P<window>{_N})"
    ),
    "vllm.characters_passed": (
        rf"you passed {_N} input characters and requested (?P<output>{_N}) output tokens\. "
        rf"however, the model.{{1,9}} context length is only (?P<window>{_N}) tokens, resulting "
        rf"in a maximum input length of (?P<bound>{_N}) tokens"
    ),
    "vllm.total_length": (
        rf"prompt \(total length (?P<prompt>{_N})\) is too long to fit into the model "
        rf"\(context length (?P<window>{_N})\)"
    ),
    # The tail of every newer message, should the sentence before it change once more. Whether the
    # tokenizer was stopped at the limit is then unknown, so the number is only a floor.
    "vllm.parameter": rf"(?P<floor>parameter=input_tokens), value=(?P<prompt>{_N})",
}
"""Name → regular expression, tried in this order; `overflow_of` explains the groups."""


def lists(found: Listing) -> bool:
    """Whether this list of models is vLLM's."""
    return found.owner == _OWNER


def probe(found: Listing, model: str | None) -> Generator[Fetch, Fetched, Server | None]:
    """Two GETs: the version, and the cache's configuration from the metrics.

    ``None`` if it is not vLLM after all: other servers have a ``/version`` too, so without a list
    of models that says vLLM only vLLM's metrics decide.
    """
    version = text(json_object((yield VERSION)).get("version"))
    if version is None and not lists(found):
        return None
    metrics = yield METRICS
    labels = cache_config(metrics.body) if metrics.status == 200 else {}
    if not labels and not lists(found):
        return None
    return Server(
        kind="vllm",
        version=version,
        model=text(found.entry.get("id")) or model,
        window=_window(found),
        block_size=_block_size(labels),
        advice=CACHING_OFF if labels.get("enable_prefix_caching", "").lower() == "false" else None,
    )


def condition() -> Generator[Fetch, Fetched, Condition]:
    """One GET: everything stands in the metrics."""
    answer = yield METRICS
    said = metrics(answer)
    labels = cache_config(answer.body) if answer.status == 200 else {}
    caching = labels.get("enable_prefix_caching", "").lower()
    return Condition(
        caching={"true": True, "false": False}.get(caching),
        kv_tokens=_kv_tokens(labels),
        blocks=_number(labels, "num_gpu_blocks"),
        running=whole(said.get("vllm:num_requests_running")),
        waiting=whole(said.get("vllm:num_requests_waiting")),
        asked_tokens=whole(said.get("vllm:prefix_cache_queries_total")),
        hit_tokens=whole(said.get("vllm:prefix_cache_hits_total")),
    )


def hint_fields(wish: Wish) -> dict[str, Any]:
    """A salt is part of the first block's hash, so of the whole chain's."""
    return {} if wish.salt is None else {"cache_salt": wish.salt}


def cache_config(metrics: bytes) -> Mapping[str, str]:
    """The labels of the gauge ``vllm:cache_config_info``; of the first engine if there are more."""
    line = _CACHE_CONFIG.search(metrics)
    if line is None:
        return {}
    return dict(_LABEL.findall(line[1].decode("utf-8", "replace")))


def _kv_tokens(labels: Mapping[str, str]) -> int | None:
    """What the start-up line says; without that label, all blocks."""
    blocks, block = _number(labels, "num_gpu_blocks"), _block_size(labels)
    whole_pool = blocks * block if blocks and block else None
    return _number(labels, "kv_cache_size_tokens") or whole_pool


def _number(labels: Mapping[str, str], label: str) -> int | None:
    value = labels.get(label, "")
    return int(value) if re.fullmatch(r"[0-9]{1,12}", value) else None


def null_is_off(version: str | None) -> bool:
    """Whether a reply without cached tokens proves that the option is not set."""
    release = _RELEASE.match(version or "")
    return release is not None and (int(release[1]), int(release[2])) >= _ZERO_IS_REPORTED_SINCE


def _window(found: Listing) -> int | None:
    """``max_model_len``, which the card of a LoRA adapter leaves to its ``parent``."""
    own = size(found.entry.get("max_model_len"))
    if own is not None:
        return own
    parent: Any = found.entry.get("parent")
    cards = (card for card in found.entries if parent is not None and card.get("id") == parent)
    return size(next(cards, {}).get("max_model_len"))


def _block_size(labels: Mapping[str, str]) -> int | None:
    values = (labels.get(label, "") for label in _BLOCK_LABELS)
    return next((int(value) for value in values if re.fullmatch(r"[1-9][0-9]{0,8}", value)), None)
