"""Which model's layers does a name or a path mean?

A name in the table of well-known models, a Hugging Face folder or its ``config.json``, or a GGUF file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvagent.gguf import GGUF, GGUFError
from kvagent.kvmemory import gguf, huggingface
from kvagent.kvmemory.geometry import Geometry, GeometryError
from kvagent.kvmemory.models import UnknownModel, model

_FILES = (".gguf", ".json")


class ModelError(ValueError):
    """No such model, or one that cannot be read: one sentence that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Named:
    """A model's geometry, and where it is from."""

    geometry: Geometry
    source: str


def read_model(argument: str) -> Named:
    """The model that ``argument`` means.

    Raises:
        ModelError: there is none.
    """
    if not argument.strip():
        raise ModelError("MODEL is empty: give a name, a folder or a file")
    path = Path(argument)
    try:
        path = path.expanduser()
        if path.is_dir():
            return _from_folder(path)
        if path.exists():
            return _from_file(path)
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    except RuntimeError as error:  # ~somebody who does not exist
        raise ModelError(f"cannot read {path}: {error}") from error
    except (GeometryError, GGUFError) as error:
        raise ModelError(
            f"{path}: {error}" if str(path) not in str(error) else str(error)
        ) from error
    if path.suffix.lower() in _FILES or argument.startswith((".", "/", "~")):
        raise ModelError(f"cannot read {path}: there is no such file")
    try:
        found = model(argument)
    except UnknownModel as error:
        raise ModelError(
            f"{error}; a folder with a config.json or a GGUF file will do too"
        ) from error
    return Named(found.geometry(), found.source)


def _from_folder(path: Path) -> Named:
    config = path / "config.json"
    if not config.is_file():
        found = sorted(path.glob("*.gguf"))
        hint = f"; give one of its GGUF files, such as {found[0]}" if found else ""
        raise ModelError(f"the folder {path} has no config.json{hint}")
    return _from_config(config)


def _from_file(path: Path) -> Named:
    with path.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF"
    if not is_gguf and path.suffix.lower() != ".gguf":
        return _from_config(path)
    read = GGUF.read(path)
    # A model in several files has all its metadata in the first, but only some of its tensors.
    whole = read.metadata.get("split.count", 1) in {0, 1}
    return Named(gguf.geometry(read.metadata, read.tensors if whole else ()), str(path))


def _from_config(path: Path) -> Named:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} holds no JSON object")
    found = huggingface.geometry(config, path.resolve().parent.name)
    size = _weights_bytes(path.parent)
    if size is not None:
        found = replace(found, weights=replace(found.weights, bytes=size))
    return Named(found, str(path))


def _weights_bytes(folder: Path) -> int | None:
    """Bytes of the weights beside a ``config.json``, by their index or their files."""
    with suppress(OSError, ValueError, RecursionError):
        index: Any = json.loads(
            (folder / "model.safetensors.index.json").read_text(encoding="utf-8")
        )
        if isinstance(index, Mapping) and isinstance(index.get("metadata"), Mapping):
            total = index["metadata"].get("total_size")
            if type(total) is int and total > 0:
                return total
    with suppress(OSError):
        return sum(file.stat().st_size for file in folder.glob("*.safetensors")) or None
    return None
