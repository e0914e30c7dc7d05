"""Does one get the tokenizer and the server that were named, or one sentence why not?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.counting import counting_of
from kvagent.audit.prediction import Target
from kvagent.audit.prompts import Estimated
from kvagent.audit.settings import Settings, SettingsError

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
)


def refused(**settings: Any) -> str:
    with pytest.raises(SettingsError) as error:
        counting_of(Settings().merged(**settings))
    said = str(error.value)
    assert "\n" not in said
    return said


# -- the server


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({}, Target()),
        ({"server": "llama.cpp"}, Target("llama.cpp")),
        (
            {"server": "llama.cpp", "slots": 4, "window": 8192},
            Target("llama.cpp", slots=4, window=8192),
        ),
        ({"block_size": 32, "blocks": 100}, Target(block_size=32, blocks=100)),
        ({"capacity": 1000}, Target(blocks=62)),
        ({"window": 32768}, Target(window=32768)),
    ],
)
def test_the_server(settings: dict[str, Any], target: Target) -> None:
    assert counting_of(Settings().merged(**settings)).target == target


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"slots": 2}, "--slots are llama.cpp's: add --server llama.cpp"),
        ({"server": "llama.cpp", "capacity": 9}, "--capacity is vLLM's"),
        ({"server": "llama.cpp", "block_size": 9}, "--block-size is vLLM's"),
        ({"blocks": 2, "capacity": 100}, "--blocks and --capacity say the same"),
        ({"capacity": 31}, "--capacity 31 is less than two blocks of 16 tokens"),
        ({"template": "chat.jinja"}, "--template renders for --tokenizer, which is not given"),
        ({"tokenizer": "http://localhost:1"}, "nobody is here who could ask"),
    ],
)
def test_what_does_not_go_together(settings: dict[str, Any], said: str) -> None:
    assert refused(**settings).startswith(said)


# -- the KV cache


def test_bytes_by_a_name() -> None:
    counting = counting_of(Settings(kv_model="Llama-3.1-8B"))
    assert counting.kv_bytes is not None
    assert counting.kv_bytes(1000) == 1000 * 131072
    halved = counting_of(Settings(kv_model="Llama-3.1-8B", tp=2))
    assert halved.kv_bytes is not None
    assert halved.kv_bytes(1000) == 500 * 131072
    assert counting_of(Settings()).kv_bytes is None


def test_a_model_that_nobody_knows() -> None:
    assert refused(kv_model="lama-3").startswith("--kv-model: ")
    assert "lama-3" in refused(kv_model="lama-3")
    assert refused(kv_model="Llama-3.1-8B", kv_dtype="f15").startswith("--kv-dtype: ")


def test_layers_that_forget_are_predicted_as_such() -> None:
    """llama.cpp's host cache depends on what a prompt weighs, vLLM's cache on sliding windows alone."""
    for settings, knows in (
        ({"kv_model": "gemma-3-4b", "server": "llama.cpp"}, True),
        ({"kv_model": "Llama-3.1-8B", "server": "llama.cpp"}, True),
        ({"kv_model": "gemma-3-4b", "window": 8192}, True),
        ({"kv_model": "gemma-3-4b"}, False),
        ({"kv_model": "Llama-3.1-8B", "window": 8192}, False),
        ({"server": "llama.cpp"}, False),
    ):
        target = counting_of(Settings().merged(**settings)).target
        assert (target.settings.geometry is not None) == knows
        target.fresh()


# -- the tokenizer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hugging Face folder `model` in the working directory, whose words are tokens."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra `exact`")
    pytest.importorskip("jinja2", reason="needs the extra `exact`")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    words = {"[UNK]": 0, "user": 1, "hello": 2}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "model/tokenizer.json"))
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return tmp_path


def test_a_folder_or_its_tokenizer(folder: Path) -> None:
    for path in ("model", "model/tokenizer.json"):
        counting = counting_of(Settings(tokenizer=path))
        prompts = counting.prompts()
        assert (prompts.exact, prompts.count("hello hello")) == (True, 2)
        # It holds what belongs to one transcript.
        assert counting.prompts() is not prompts
        assert counting.target.kind == "vllm"
        assert counting.kv_bytes is None


def test_its_layers_weigh_the_kv_cache(folder: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "hidden_size": 64,
        "head_dim": 16,
        "intermediate_size": 128,
        "vocab_size": 3,
        "max_position_embeddings": 2048,
    }
    (folder / "model/config.json").write_text(json.dumps(config))
    counting = counting_of(Settings(tokenizer="model"))
    assert counting.kv_bytes is not None
    assert counting.kv_bytes(10) == 10 * 2 * 2 * 2 * 16 * 2
    assert refused(tokenizer="model", kv_dtype="f15").startswith("--kv-dtype: ")


def test_another_template(folder: Path) -> None:
    (folder / "model/tokenizer_config.json").unlink()
    assert refused(tokenizer="model").endswith("has no chat template: give one with --template")
    (folder / "chat.jinja").write_text(TEMPLATE)
    assert counting_of(Settings(tokenizer="model", template="chat.jinja")).prompts().exact


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tokenizer": "nowhere"}, "--tokenizer nowhere: there is no such file; give"),
        ({"tokenizer": "notes.txt"}, "--tokenizer notes.txt: is neither a GGUF file nor"),
        ({"tokenizer": "empty"}, "--tokenizer empty: empty has no tokenizer.json"),
        ({"tokenizer": "cut.gguf"}, "--tokenizer cut.gguf: "),
        ({"tokenizer": "broken"}, "--tokenizer broken: "),
        ({"tokenizer": "model", "template": "none.jinja"}, "--template none.jinja: No such file"),
        ({"tokenizer": "model", "template": "bad.jinja"}, "--tokenizer model: the chat template"),
        ({"tokenizer": "model", "template": "blank.jinja"}, "--template blank.jinja is empty"),
        ({"tokenizer": "model", "template": "cut.gguf"}, "--template cut.gguf is not UTF-8"),
    ],
)
def test_what_is_no_model(folder: Path, settings: dict[str, Any], said: str) -> None:
    (folder / "notes.txt").write_text("hello")
    (folder / "empty").mkdir()
    (folder / "cut.gguf").write_bytes(b"GGUF\x03\0\0\0\xff\xff")
    (folder / "broken").mkdir()
    (folder / "broken/tokenizer.json").write_text("{}")
    (folder / "bad.jinja").write_text("{% for %}")
    (folder / "blank.jinja").write_text("\n")
    assert refused(**settings).startswith(said)


def test_a_gguf_file_is_for_llama_cpp(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs the extra `exact`")
    pytest.importorskip("tokenizers", reason="needs the extra `exact`")
    from tests.tokens.gguf_files import tiny_llama

    tokenizer = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": ["a", "b", "ab", "<|end|>"],
        "tokenizer.ggml.token_type": [1, 1, 1, 3],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.chat_template": TEMPLATE,
    }
    file = tiny_llama(tmp_path / "tiny.gguf", tokenizer)
    counting = counting_of(Settings(tokenizer=str(file)))
    assert counting.target.kind == "llama.cpp"
    assert counting.prompts().exact
    assert counting.kv_bytes is not None
    other = counting_of(Settings(tokenizer=str(file), server="vllm"))
    assert other.target.kind == "vllm"


def test_without_one_it_is_an_estimate() -> None:
    assert isinstance(counting_of(Settings()).prompts(), Estimated)
