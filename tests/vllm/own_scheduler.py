"""What would vLLM's own scheduler say, without a server and without a model?

Run by the Python of vLLM's environment: reads traffic as JSON from standard input, a case a line, drives vLLM's
scheduler and block manager with it step by step, and writes what happened, a line for each case. Thousands of
requests take seconds, so this is where simulated traffic is compared by the thousand.

A case: ``{"model", "block_size", "blocks", "windows", "max_model_len", "max_num_batched_tokens",
"max_num_seqs", "retention", "asynchronous",
"requests": [{"at", "prompt", "answer", "salt", "read", "stopped"}]}``: ``at`` is the step in which a request
arrives, None for when all before it have ended; ``stopped`` says that the last token of ``answer`` ended it.

What happened: ``[["begin", number], ["extend", number, tokens so far], ["finish", number], ...]`` in this order,
and ``cached`` by number.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

STOP = 3


def scheduler_of(case: dict[str, Any]) -> Scheduler:
    """As the engine makes it."""
    model = ModelConfig(model=case["model"], max_model_len=case["max_model_len"], dtype="bfloat16")
    scheduling = SchedulerConfig(
        max_num_seqs=case["max_num_seqs"],
        max_num_batched_tokens=case["max_num_batched_tokens"],
        max_model_len=case["max_model_len"],
        enable_chunked_prefill=True,
        is_encoder_decoder=False,
        async_scheduling=case["asynchronous"],
    )
    cache = CacheConfig(
        block_size=case["block_size"],
        enable_prefix_caching=True,
        prefix_cache_retention_interval=case["retention"],
    )
    config = VllmConfig(model_config=model, scheduler_config=scheduling, cache_config=cache)
    config.scheduler_config.async_scheduling = case[
        "asynchronous"
    ]  # the CPU platform takes it back
    shape = {
        "block_size": case["block_size"],
        "num_kv_heads": 1,
        "head_size": 8,
        "dtype": torch.float32,
    }
    groups = [
        KVCacheGroupSpec(
            [f"layer{number}"],
            FullAttentionSpec(**shape)
            if window is None
            else SlidingWindowSpec(**shape, sliding_window=window),
        )
        for number, window in enumerate(case["windows"])
    ]
    kv_cache = KVCacheConfig(
        num_blocks=case["blocks"],
        kv_cache_tensors=[],
        kv_cache_groups=groups,
        prefix_cache_retention_interval=case["retention"],
    )
    cache.num_gpu_blocks = case["blocks"]
    kind = AsyncScheduler if case["asynchronous"] else Scheduler
    return kind(
        vllm_config=config,
        kv_cache_config=kv_cache,
        structured_output_manager=StructuredOutputManager(config),
        block_size=case["block_size"],
        hash_block_size=case["block_size"],
        log_stats=False,
    )


def request_of(number: int, given: dict[str, Any], block_size: int) -> Request:
    """As the API server makes it."""
    sampling = SamplingParams(
        max_tokens=len(given["answer"]) + given["stopped"],
        prompt_logprobs=None if given["read"] else 1,
    )
    sampling.update_from_generation_config({}, STOP if given["stopped"] else None)
    return Request(
        request_id=str(number),
        prompt_token_ids=given["prompt"],
        sampling_params=sampling,
        pooling_params=None,
        cache_salt=given["salt"],
        block_hasher=get_request_block_hasher(block_size, sha256),
    )


def drive(case: dict[str, Any]) -> dict[str, Any]:
    """All requests from arrival to end."""
    scheduler = scheduler_of(case)
    happened: list[tuple[Any, ...]] = []
    cached: dict[int, int] = {}
    waiting = list(enumerate(case["requests"]))
    sampled: dict[str, int] = {}
    in_flight: list[Any] = []
    ahead = 2 if case["asynchronous"] else 1
    step = 0
    while waiting or scheduler.has_unfinished_requests():
        while waiting and (
            not scheduler.has_unfinished_requests()
            if waiting[0][1]["at"] is None
            else waiting[0][1]["at"] <= step
        ):
            number, given = waiting.pop(0)
            happened += progress(scheduler)
            scheduler.add_request(request_of(number, given, case["block_size"]))
            happened.append(("begin", number))
        step += 1
        output = scheduler.schedule()
        if output.total_num_scheduled_tokens:
            sample(scheduler, output, case, sampled)
            in_flight.append(output)
        if len(in_flight) < ahead and output.total_num_scheduled_tokens:
            continue
        if in_flight:
            finish(scheduler, in_flight.pop(0), case, happened, cached)
    return {"happened": happened, "cached": [cached[n] for n in range(len(case["requests"]))]}


def progress(scheduler: Scheduler) -> list[tuple[str, int, int]]:
    """How many tokens each running request has by now, as a stream would show."""
    return [
        ("extend", int(name), request.num_output_tokens)
        for name, request in scheduler.requests.items()
        if request.num_output_tokens
    ]


def sample(
    scheduler: Scheduler, output: Any, case: dict[str, Any], sampled: dict[str, int]
) -> None:
    """What the model would generate in this step: the given answers."""
    output.tokens = {}
    for name in output.num_scheduled_tokens:
        request = scheduler.requests[name]
        if request.is_prefill_chunk:
            output.tokens[name] = []
            continue
        answer = case["requests"][int(name)]["answer"]
        position = request.num_computed_tokens - request.num_prompt_tokens
        output.tokens[name] = [answer[position] if position < len(answer) else 1]


def finish(
    scheduler: Scheduler,
    output: Any,
    case: dict[str, Any],
    happened: list[Any],
    cached: dict[int, int],
) -> None:
    """Give the scheduler what was sampled, and note who ended."""
    names = list(output.num_scheduled_tokens)
    result = ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: index for index, name in enumerate(names)},
        sampled_token_ids=[output.tokens[name] for name in names],
        logprobs=None,
        prompt_logprobs_dict={},
        pooler_output=[],
    )
    for outputs in scheduler.update_from_output(output, result).values():
        for one in outputs.outputs:
            number = int(one.request_id)
            if one.prefill_stats is not None:
                cached[number] = one.prefill_stats.num_cached_tokens
            if one.finish_reason is not None:
                happened.append(("finish", number))


def main() -> int:
    """A case a line."""
    init_none_hash(sha256)
    for line in sys.stdin:
        print(json.dumps(drive(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
