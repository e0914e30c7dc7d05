"""What does vLLM itself make of a KV space? Prints `vllm_pools.json`; runs where vLLM is installed."""
# mypy: ignore-errors

from __future__ import annotations

import json
import random
from math import ceil
from types import SimpleNamespace

import torch
import vllm
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_cache_interface import (
    AttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
    get_kv_quant_mode,
)
from vllm.v1.kv_cache_layout import KVCacheLayout

GIB = 2**30
TYPES = {
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "fp8": torch.float8_e4m3fn,
    "fp8_ds_mla": torch.uint8,
    "int8_per_token_head": torch.int8,
}
MODELS = {
    "Llama-3-8B": [[32, "attention", 8, 128, 128, None]],
    "Llama-3.3-70B": [[80, "attention", 8, 128, 128, None]],
    "SmolLM2-135M": [[30, "attention", 3, 64, 64, None]],
    "Mistral-7B-v0.1": [[32, "attention", 8, 128, 128, 4096]],
    "DeepSeek-V3": [[61, "latent", 576]],
    "DeepSeek-V3.2": [[61, "latent", 576], [61, "indexer", 128]],
    "Gemma-3-27B": [
        [10, "attention", 16, 128, 128, None],
        [52, "attention", 16, 128, 128, 1024],
    ],
    "Gemma-3-270m": [[3, "attention", 1, 256, 256, None], [15, "attention", 1, 256, 256, 512]],
    "Gemma-3-4B": [[5, "attention", 4, 256, 256, None], [29, "attention", 4, 256, 256, 1024]],
    "gpt-oss-20b": [[12, "attention", 8, 64, 64, None], [12, "attention", 8, 64, 64, 128]],
    "13 full, 12 windows": [[13, "attention", 8, 64, 64, None], [12, "attention", 8, 64, 64, 128]],
    "17 full, 12 windows": [[17, "attention", 8, 64, 64, None], [12, "attention", 8, 64, 64, 128]],
    "18 full, 12 windows": [[18, "attention", 8, 64, 64, None], [12, "attention", 8, 64, 64, 128]],
    "two windows": [[8, "attention", 8, 64, 64, 256], [16, "attention", 8, 64, 64, 1024]],
    "pages that divide": [
        [5, "attention", 2, 512, 512, None],
        [25, "attention", 4, 128, 128, 1024],
    ],
    "pages that do not divide": [
        [5, "attention", 3, 128, 128, None],
        [25, "attention", 2, 128, 128, 1024],
    ],
    "heads that differ": [
        [20, "attention", 8, 128, 128, None],
        [20, "attention", 4, 128, 128, None],
    ],
    "keys and values differ": [[20, "attention", 4, 192, 128, None]],
    "Qwen3-Next-80B-A3B": [
        [36, "state", 24576, 524288, 4],
        [12, "attention", 2, 256, 256, None],
    ],
    "Qwen3-Next, 16-bit state": [
        [36, "state", 24576, 524288, 2],
        [12, "attention", 2, 256, 256, None],
    ],
    "two states": [
        [6, "state", 4096, 8192, 4],
        [6, "state", 2048, 4096, 4],
        [6, "attention", 2, 64, 64, None],
    ],
    "only states": [[24, "state", 4096, 65536, 4]],
}


def config(context: int, in_flight: int) -> SimpleNamespace:
    """What of vLLM's configuration its functions ask for."""
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=context, original_max_model_len=context),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=1,
            tensor_parallel_size=1,
            pipeline_parallel_size=1,
            prefill_context_parallel_size=1,
        ),
        scheduler_config=SimpleNamespace(disable_hybrid_kv_cache_manager=False),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=None,
            mamba_cache_mode="align",
            prefix_cache_retention_interval=0,
            get_resolved_kv_cache_layout=lambda: KVCacheLayout.LBNHC,
            kv_cache_dtype_skip_layers=None,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        speculative_config=None,
        max_in_flight_tokens=in_flight,
        num_prefill_lookahead_tokens=0,
        device_config=SimpleNamespace(device_type="cuda"),
    )


def attention(layer: list, block_size: int, kv_dtype: str, tp: int) -> AttentionSpec:
    """The specification of a layer with keys and values."""
    _, _, heads, key_dim, value_dim, window = layer
    sizes = {
        "block_size": block_size,
        "num_kv_heads": max(1, heads // tp),
        "head_size": key_dim,
        "head_size_v": value_dim,
        "dtype": TYPES[kv_dtype],
        "kv_quant_mode": get_kv_quant_mode("auto" if kv_dtype in {"bf16", "f32"} else kv_dtype),
    }
    spec = (
        SlidingWindowSpec(sliding_window=window, **sizes) if window else FullAttentionSpec(**sizes)
    )
    return TritonAttentionBackend.customize_spec(spec)


def state(layer: list, block_size: int, tp: int, padded: int | None) -> MambaSpec:
    """The specification of a layer with a state."""
    _, _, conv, recurrent, size = layer
    return MambaSpec(
        shapes=((conv // tp,), (recurrent // tp,)),
        dtypes=(torch.bfloat16, torch.float32 if size == 4 else torch.bfloat16),
        block_size=block_size,
        page_size_padded=padded,
        mamba_cache_mode="align",
    )


def specification(
    layer: list, block_size: int, kv_dtype: str, tp: int, padded: int | None
) -> KVCacheSpec:
    """The specification of any layer."""
    match layer[1]:
        case "attention":
            return attention(layer, block_size, kv_dtype, tp)
        case "latent":
            return MLAAttentionSpec(
                block_size=block_size,
                num_kv_heads=1,
                head_size=layer[2],
                dtype=TYPES[kv_dtype],
                cache_dtype_str=kv_dtype,
                state_content_bytes={"fp8_ds_mla": 656}.get(kv_dtype),
            )
        case "indexer":
            size = layer[2] + layer[2] // 128 * 4
            return MLAAttentionSpec(
                block_size=block_size, num_kv_heads=1, head_size=size, dtype=torch.uint8
            )
        case _:
            return state(layer, block_size, tp, padded)


def aligned(layers: list[list], block_size: int, kv_dtype: str, tp: int) -> tuple[int, int | None]:
    """The block size and the padded state of a hybrid, as `_align_hybrid_block_size` sets them."""
    with_state = [layer for layer in layers if layer[1] == "state"]
    others = [layer for layer in layers if layer[1] == "attention"]
    if not with_state or not others:
        return block_size, None
    token = max(attention(layer, 1, kv_dtype, tp).page_size_bytes for layer in others)
    largest = max(state(layer, -1, tp, None).page_size_bytes for layer in with_state)
    unit = max(16, block_size)
    block_size = max(block_size, unit * ceil(largest / (unit * token)))
    return block_size, block_size * token


def main() -> None:
    random.seed(7)
    rows = []
    for name, layers in MODELS.items():
        for _ in range(20):
            row = {
                "model": name,
                "layers": layers,
                "block_size": random.choice([16, 16, 32, 64, 128]),
                "context": random.choice([2048, 4096, 8192, 8191, 10000, 32768, 40960, 131072]),
                "in_flight": random.choice([2048, 2049, 4096, 16385, 32768]),
                "tp": random.choice([1, 1, 2, 4, 8]),
                "kv_dtype": random.choice(["bf16", "bf16", "fp8", "int8_per_token_head", "f32"]),
                "space_bytes": random.choice([1, 2, 3, 7, 20, 40, 80]) * GIB
                + random.choice([0, 0, 12345678]),
            }
            if layers[0][1] == "latent":
                row["kv_dtype"] = random.choice(["bf16", "fp8", "fp8_ds_mla"])
            heads = [layer[2] for layer in layers if layer[1] == "attention"]
            if any(count % row["tp"] and row["tp"] % count for count in heads):
                row["tp"] = 1  # vLLM wants one to divide the other
            block_size, padded = aligned(layers, row["block_size"], row["kv_dtype"], row["tp"])
            each = (layer for layer in layers for _ in range(layer[0]))
            specs = {
                f"model.layers.{index}.x": specification(
                    layer, block_size, row["kv_dtype"], row["tp"], padded
                )
                for index, layer in enumerate(each)
            }
            settings = config(row["context"], row["in_flight"])
            try:
                configs = kv_cache_utils.get_kv_cache_configs(
                    settings, [specs], [row["space_bytes"]]
                )
            except ValueError:
                continue  # not even one request has room
            whole = kv_cache_utils.generate_scheduler_kv_cache_config(configs)
            tokens, concurrency = kv_cache_utils.get_kv_cache_capacity(settings, whole)
            row |= {
                "blocks": configs[0].num_blocks,
                "tokens": tokens,
                "concurrency": concurrency,
            }
            rows.append(row)
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    print(f'{{\n  "vllm": "{vllm.__version__}",\n  "pools": [\n{lines}\n  ]\n}}')


if __name__ == "__main__":
    main()
