"""How much of a recorded workload would a cache of this size have given?

Public traces name the blocks of each prompt by hashes and hold no text. Two kinds are read:
Mooncake's (JSON lines, blocks of 512 tokens, the last block of a prompt is named even where it is
not full) and WEKA's of coding agents (one JSON document, blocks of 64, full ones only).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import orjson

from kvagent.prefixcache.blocks import BlockCache
from kvagent.prefixcache.pool import Content, Pool

MOONCAKE_BLOCK = 512


class TraceError(ValueError):
    """The file is no trace that can be read; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Traced:
    """One request of a trace."""

    at: float
    """Seconds since the trace began."""
    tokens: int
    generated: int
    hashes: Sequence[int]
    """One for each block of the prompt; equal hashes have the same tokens before them too."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order in which they came."""

    block_size: int
    requests: Sequence[Traced]

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Trace:
        """Read either kind; which one, the content says.

        Raises:
            TraceError: it is neither.
            OSError: the file cannot be opened.
        """
        path = Path(path)
        data = path.read_bytes()
        try:
            documents = _documents(data)
            if "requests" in documents[0]:
                (document,) = documents
                requests = [_weka(request) for request in _with_nested(document["requests"])]
                return cls(int(document["block_size"]), requests)
            return cls(MOONCAKE_BLOCK, [_mooncake(line) for line in documents])
        except (LookupError, TypeError, ValueError) as error:
            raise TraceError(f"{path} is no trace of Mooncake or WEKA: {error!r}") from error


def _documents(data: bytes) -> Sequence[Mapping[str, Any]]:
    """One over many lines, or one a line."""
    try:
        return [orjson.loads(data)]
    except orjson.JSONDecodeError:
        return [orjson.loads(line) for line in data.splitlines()]


def _mooncake(line: Mapping[str, Any]) -> Traced:
    at, tokens, generated = line["timestamp"] / 1e3, line["input_length"], line["output_length"]
    return Traced(at, tokens, generated, line["hash_ids"])


def _weka(request: Mapping[str, Any]) -> Traced:
    return Traced(request["t"], request["in"], request["out"], request["hash_ids"])


def _with_nested(requests: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Sub-agents have a list of their own in the place of a request."""
    for request in requests:
        if "hash_ids" in request:
            yield request
        yield from _with_nested(request.get("requests", ()))


@dataclass(frozen=True, slots=True)
class Reuse:
    """What came from the cache, in full blocks; what does not fill a block is never shared."""

    hit_blocks: int
    blocks: int

    @property
    def rate(self) -> float:
        """The share of the prompts' blocks that needed no prefill, 0 to 1."""
        return self.hit_blocks / self.blocks if self.blocks else 0.0


def served(trace: Trace, blocks: int | None = None) -> Reuse:
    """One vLLM serves the trace, one request after the other, with so many usable blocks.

    A prompt that the blocks cannot hold gets nothing. None is a cache without an end.
    """
    cache = BlockCache(trace.block_size, None if blocks is None else blocks + 1, exact=False)
    hits = asked = 0
    for traced in trace.requests:
        running = cache.begin_hashed(traced.hashes, traced.tokens)
        running.finish()
        hits += running.hit.cached_tokens if running.hit else 0
        asked += traced.tokens // trace.block_size
    return Reuse(hits // trace.block_size, asked)


def pooled(trace: Trace, blocks: int | None = None) -> Reuse:
    """A store of so many blocks beside the servers, as Mooncake's: prompts pass through it.

    A request holds nothing. Its blocks are used in their order, so the head of a prompt leaves the
    store before its tail, and a prompt may be longer than the store. A last block that is not full
    takes a place, too. The model of Mooncake's paper (FAST'25, figure 9).
    """
    pool, content = Pool(blocks), Content()
    hits = asked = 0
    for traced in trace.requests:
        found = 0
        for number, key in enumerate(traced.hashes):
            block = content.get(key)
            if block is not None:
                found += number == found
                pool.touch((block,))
            else:
                (block,) = pool.take(1)
                pool.offer(content, (key,), (block,))
            pool.free((block,))
        full = traced.tokens // trace.block_size
        hits += min(found, full)
        asked += full
    return Reuse(hits, asked)
