from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kvagent.cli.failure import Failure
from kvagent.cli.model_argument import read_model
from kvagent.kvmemory.geometry import Attention, Layers

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
}
LAYERS = (Layers(30, Attention(3, 64, 64)),)


def folder(path: Path, config: object = CONFIG) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path


def gguf(path: Path, **numbers: int) -> Path:
    """A file of metadata alone."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    entries = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    entries += [
        text(f"llama.{key.replace('__', '.')}") + struct.pack("<II", 4, value)
        for key, value in numbers.items()
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    path.write_bytes(head + b"".join(entries))
    return path


SIZES = {
    "block_count": 30,
    "embedding_length": 576,
    "attention__head_count": 9,
    "attention__head_count_kv": 3,
}


def test_a_name() -> None:
    named = read_model("smollm2-135m")
    assert named.geometry.layers == LAYERS
    assert named.source == "HuggingFaceTB/SmolLM2-135M/config.json"


@pytest.mark.parametrize("name", ["model", "ein Modell", "模型 名", "ümlaut/inner"])
def test_a_folder_and_its_config(tmp_path: Path, name: str) -> None:
    path = folder(tmp_path / name)
    assert read_model(str(path)).geometry.layers == LAYERS
    assert read_model(str(path / "config.json")).geometry.layers == LAYERS
    assert read_model(str(path)).geometry.name == path.name


def test_any_json_file_is_a_config(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    assert read_model(str(path)).geometry.layers == LAYERS


def test_a_file_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "Llama-3-8B")
    assert read_model("Llama-3-8B").geometry.layers == LAYERS


@pytest.mark.parametrize("name", ["model.gguf", "模型.gguf", "no-suffix"])
def test_a_gguf_file(tmp_path: Path, name: str) -> None:
    path = gguf(tmp_path / name, **SIZES)
    named = read_model(str(path))
    assert named.geometry.layers == LAYERS
    assert named.source == str(path)


def test_the_weights_beside_a_config(tmp_path: Path) -> None:
    path = folder(tmp_path)
    assert read_model(str(path)).geometry.weights.bytes is None
    (path / "model-1.safetensors").write_bytes(bytes(100))
    (path / "model-2.safetensors").write_bytes(bytes(23))
    assert read_model(str(path)).geometry.weights.bytes == 123
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 7}}), encoding="utf-8")
    assert read_model(str(path)).geometry.weights.bytes == 7
    index.write_text("{", encoding="utf-8")
    assert read_model(str(path)).geometry.weights.bytes == 123


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("lama-3-8b", "there is no model 'lama-3-8b' in the table, the nearest are Llama-3-8B"),
        ("", "MODEL is empty"),
        ("~nobody-of-this-name/model", "cannot read"),
        ("./nothing", "there is no such file"),
        ("/nothing/config.json", "there is no such file"),
        ("model.gguf", "cannot read model.gguf: there is no such file"),
        ("nul\0", "."),
        ("x" * 5000, "."),
    ],
)
def test_what_is_not_there(
    argument: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Failure, match=why):
        read_model(argument)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "the configuration has no num_hidden_layers"),
        ({**CONFIG, "num_hidden_layers": "30"}, 'num_hidden_layers is "30"'),
        ({**CONFIG, "num_key_value_heads": 0}, "num_key_value_heads is 0"),
        ([], "holds no JSON object"),
        ("text", "holds no JSON object"),
    ],
)
def test_a_broken_config_is_named(tmp_path: Path, config: object, why: str) -> None:
    path = folder(tmp_path / "broken", config)
    with pytest.raises(Failure, match=why) as failure:
        read_model(str(path))
    assert "broken" in str(failure.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN'])
def test_what_is_no_json_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(Failure, match=r"config.json is no JSON"):
        read_model(str(tmp_path))


def test_a_broken_gguf_is_named(tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(b"GGUF\3\0\0\0")
    with pytest.raises(Failure, match=r"short.gguf is damaged"):
        read_model(str(short))
    text = tmp_path / "text.gguf"
    text.write_text("hello", encoding="utf-8")
    with pytest.raises(Failure, match="is no GGUF file"):
        read_model(str(text))
    with pytest.raises(Failure, match=r"bare.gguf: the file has no llama.block_count"):
        read_model(str(gguf(tmp_path / "bare.gguf")))


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"has no config.json$"):
        read_model(str(tmp_path))
    gguf(tmp_path / "a.gguf", **SIZES)
    with pytest.raises(Failure, match=r"give one of its GGUF files, such as .*a.gguf"):
        read_model(str(tmp_path))
