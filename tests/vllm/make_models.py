"""Which models can vLLM serve in seconds, without a download?

Run by the Python of vLLM's own environment: ``python make_models.py FOLDER``. Two models of two layers with
random weights, since a cache does not look at them: ``llama`` has full attention only, ``gemma`` has a
sliding-window layer below a full one. Both have a byte-level tokenizer that is trained here, on text made here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SPECIAL = ["<|pad|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# The tokens of the Hermes parser, one token each, as models that were trained on it have them.
TOOL_CALL = ["<tool_call>", "</tool_call>"]
WINDOW = 16_384
SLIDING_WINDOW = 300  # no multiple of a block

VOCABULARY = 8192


def corpus() -> Iterator[str]:
    """Prose and code that every Python carries: the texts of its help."""
    from pydoc_data.topics import topics

    yield from topics.values()
    yield '{"type": "function", "function": {"name": "read_file", "parameters": {"path": "src/a.py"}}}'


def write_tokenizer(folder: Path) -> int:
    """Write ``tokenizer.json`` and ``tokenizer_config.json``; the size of the vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from tokenizers.pre_tokenizers import ByteLevel

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens(TOOL_CALL)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|pad|>",
            "model_max_length": WINDOW,
            "clean_up_tokenization_spaces": False,
        },
    )
    return int(tokenizer.get_vocab_size())


def write_model(folder: Path, kind: str) -> None:
    """A whole model folder."""
    import torch
    from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokenizer(folder)
    shape: dict[str, Any] = {
        "vocab_size": -(-vocabulary // 64) * 64,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": 1 << 17,
        "bos_token_id": None,
        "eos_token_id": SPECIAL.index("<|im_end|>"),
        "pad_token_id": SPECIAL.index("<|pad|>"),
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
    }
    if kind == "gemma":
        layers = ["sliding_attention", "full_attention"]
        config: Any = Gemma3TextConfig(
            **shape, layer_types=layers, sliding_window=SLIDING_WINDOW, query_pre_attn_scalar=32
        )
    else:
        config = LlamaConfig(**shape)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)


def write_adapter(folder: Path) -> None:
    """A LoRA adapter of ``llama`` with random weights."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    rank, wide, narrow = 8, 64, 32
    weights = {}
    for layer in range(2):
        for name, out in (("q_proj", wide), ("v_proj", narrow)):
            key = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{key}.lora_A.weight"] = torch.randn(rank, wide, dtype=torch.bfloat16)
            weights[f"{key}.lora_B.weight"] = torch.randn(out, rank, dtype=torch.bfloat16)
    save_file(weights, folder / "adapter_model.safetensors")
    write_json(
        folder / "adapter_config.json",
        {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": "llama",
            "r": rank,
            "lora_alpha": rank,
            "target_modules": ["q_proj", "v_proj"],
            "bias": "none",
        },
    )


def write_json(path: Path, value: Any) -> None:
    """Laid out for people."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Make every model below the folder that is named."""
    folder = Path(sys.argv[1])
    for kind in ("llama", "gemma"):
        write_model(folder / kind, kind)
    write_adapter(folder / "adapter")
    return 0


if __name__ == "__main__":
    sys.exit(main())
