"""How much memory does a KV cache take, what fits, and how fast can it be served?

Pure arithmetic on a model's sizes: no server, no GPU, no network. A `Geometry` says what a model keeps,
from a name, a ``config.json`` or a GGUF file; a `Storage` in which data types and on how many GPUs; the rest
follows.
"""

from __future__ import annotations

from kvagent.kvmemory.geometry import Geometry, GeometryError
from kvagent.kvmemory.gpus import GPU, UnknownGPU, gpu
from kvagent.kvmemory.memory import Storage, fixed_bytes, growth_bytes, request_bytes
from kvagent.kvmemory.models import UnknownModel, model
from kvagent.kvmemory.plan import Scenario
from kvagent.kvmemory.vllm import tokens_in

__all__ = [
    "GPU",
    "Geometry",
    "GeometryError",
    "Scenario",
    "Storage",
    "UnknownGPU",
    "UnknownModel",
    "fixed_bytes",
    "gpu",
    "growth_bytes",
    "model",
    "request_bytes",
    "tokens_in",
]
