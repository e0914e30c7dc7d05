"""How are the servers started so?"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from kvagent.kvmemory.dtypes import LLAMACPP, VLLM, KVType
from kvagent.kvmemory.plan import Scenario

_SIXTEEN = frozenset({"f16", "bf16", "f32"})


def vllm_command(scenario: Scenario, model: str) -> list[str]:
    """vLLM's command and arguments for this scenario; ``model`` is a repository or a folder."""
    return ["vllm", "serve", model, *_vllm_flags(scenario)]


def _vllm_flags(scenario: Scenario) -> Iterator[str]:
    yield from ("--max-model-len", str(scenario.context))
    yield from ("--max-num-seqs", str(scenario.requests))
    if scenario.storage.tp > 1:
        yield from ("--tensor-parallel-size", str(scenario.storage.tp))
    kind = scenario.storage.types.key
    if kind.name not in _SIXTEEN:
        # llama.cpp's types have none that is equal; 8 bits run on most GPUs.
        yield from ("--kv-cache-dtype", kind.name if VLLM in kind.servers else "fp8")
    # Without it the server says nothing of what came from its cache.
    yield "--enable-prompt-tokens-details"


def llamacpp_command(scenario: Scenario, model: str) -> list[str]:
    """llama.cpp's command and arguments for this scenario; ``model`` is a GGUF file."""
    return ["llama-server", "--model", model, *_llamacpp_flags(scenario)]


def _llamacpp_flags(scenario: Scenario) -> Iterator[str]:
    # The context is divided among the slots, each of a multiple of 256.
    yield from ("--ctx-size", str(ceil(scenario.context / 256) * 256 * scenario.requests))
    yield from ("--parallel", str(scenario.requests))
    yield from ("--n-gpu-layers", "999")
    types = scenario.storage.types
    key, value = _ggml(types.key), _ggml(types.value)
    if (key, value) != ("f16", "f16"):
        yield from ("--cache-type-k", key, "--cache-type-v", value, "--flash-attn", "on")
    if scenario.storage.tp > 1:
        yield from ("--split-mode", "layer")
    yield from ("--jinja", "--metrics")


def _ggml(kind: KVType) -> str:
    if LLAMACPP in kind.servers:
        return kind.name
    return "q8_0" if kind.element >= 1 else "q4_0"
