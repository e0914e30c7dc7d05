"""How long does the audit of a large log take, and how much memory, beside another linter and beside the floor?

A log of requests is generated, always the same one for the same numbers: agents' conversations that grow. Each
program reads it as a process of its own; what is told is its CPU time, with its children's, its time by the clock,
and the most memory that it held.

    python benchmarks/audit.py MODEL [--kvlint PYTHON] [--requests 1900] [--rounds 7] [--json OUT]

``MODEL`` is a Hugging Face folder with tokenizer and chat template. ``--kvlint`` is the Python of an environment
with kvlint in it: ``python -m venv V && V/bin/pip install kvlint==0.1.1``.

The floor is what no audit with exact tokens can do without: ``orjson.loads`` of every line, and the bare tokenizer
over each text of each message (what it says, and what its calls are given) once. ``analysis`` is the audit without
the start of the interpreter and the loading of the tokenizer; ``x floor`` compares the two, the least of some rounds,
once by the clock and once by CPU time. By the clock it takes less where there is more than one core: the tokenizer
encodes while other requests are read and counted.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from request_log import write
from rich.console import Console
from rich.table import Table

_SERVERS: dict[str, list[str]] = {
    "kvagent audit": [],
    "kvagent audit, blocks": ["--blocks", "20000"],
    "kvagent audit, slots": ["--server", "llama.cpp", "--slots", "4"],
}


def command(argv: Sequence[str]) -> dict[str, float]:
    """Seconds and megabytes of a process."""
    start = time.perf_counter()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    # Both are compiled once, as they are where they were installed.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 2):
        raise SystemExit(f"{argv[0]} ended with {process.returncode}")
    return {
        "cpu_s": used.ru_utime + used.ru_stime,
        "clock_s": time.perf_counter() - start,
        "peak_mb": used.ru_maxrss / 1024,
    }


def texts_of(message: dict[str, Any]) -> list[str]:
    """What a tokenizer has to see of a message."""
    texts = [message["content"]]
    texts += [call["function"]["arguments"] for call in message.get("tool_calls", ())]
    return texts


class _Spent:
    """Counts seconds, of the CPU and by the clock, while it is entered."""

    def __init__(self) -> None:
        self.cpu_s = self.clock_s = 0.0

    def __enter__(self) -> None:
        self._began = time.process_time(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        cpu, clock = self._began
        self.cpu_s += time.process_time() - cpu
        self.clock_s += time.perf_counter() - clock


def floor(file: Path, model: str) -> _Spent:
    """What nobody can do without."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
    texts: set[str] = set()
    with file.open("rb") as lines:
        spent = _Spent()
        for line in lines:
            with spent:
                body = orjson.loads(line)
            texts.update(text for message in body["messages"] for text in texts_of(message))
    with spent:
        for text in texts:
            tokenizer.encode(text, add_special_tokens=False)
    return spent


def analysis(file: Path, model: str | None) -> _Spent:
    """An audit, from the opened file to the findings."""
    from kvagent.audit.counting import counting_of
    from kvagent.audit.run import Auditor
    from kvagent.audit.settings import Settings

    settings = Settings(tokenizer=model, what_if=False)
    auditor = Auditor(settings, counting=counting_of(settings))
    spent = _Spent()
    with spent:
        auditor.file(file)
    return spent


def measured(arguments: argparse.Namespace, file: Path) -> dict[str, Any]:
    """All of it, by name."""
    model, rounds = arguments.model, range(arguments.rounds)
    kvagent = [str(Path(sys.executable).parent / "kvagent"), "audit", str(file)]
    kvagent += ["--isolated", "--tokenizer", model]
    found: dict[str, Any] = {}
    command([*kvagent, "--no-what-if"])  # what has to be compiled is compiled
    for name, options in _SERVERS.items():
        found[name] = command([*kvagent, "--no-what-if", *options])
    found["kvagent audit, with what-if"] = command([*kvagent, "--what-if"])
    if arguments.kvlint:
        program = Path(arguments.kvlint).parent / "kvlint"
        found["kvlint lint"] = command([str(program), "lint", str(file), "--model", model])
    kinds: dict[str, Callable[[], _Spent]] = {
        "floor": lambda: floor(file, model),
        "analysis, exact": lambda: analysis(file, model),
        "analysis, estimated": lambda: analysis(file, None),
    }
    analysis(file, model)  # what is imported is imported
    gc.freeze()  # as the command does it
    # In turn, so that whatever disturbs the machine disturbs all of them.
    times = [{name: kind() for name, kind in kinds.items()} for _ in rounds]
    for name in kinds:
        found[name] = {
            "cpu_s": min(each[name].cpu_s for each in times),
            "clock_s": min(each[name].clock_s for each in times),
        }
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="a Hugging Face folder")
    parser.add_argument("--kvlint", help="the Python of an environment with kvlint")
    parser.add_argument("--requests", type=int, default=1_900)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures there")
    arguments = parser.parse_args()
    if not Path(arguments.model, "tokenizer.json").is_file():
        parser.error(f"{arguments.model} is no Hugging Face folder: it has no tokenizer.json")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests.jsonl"
        size = write(file, arguments.requests)
        found = measured(arguments, file)
    least, ours = found["floor"], found["kvagent audit"]
    table = Table("", "clock s", "x floor", "x kvagent audit", "CPU s", "x floor", "peak MB")
    for name, each in found.items():
        clock, cpu = each["clock_s"], each["cpu_s"]
        table.add_row(
            name,
            f"{clock:.2f}",
            f"{clock / least['clock_s']:.2f}",
            f"{clock / ours['clock_s']:.2f}",
            f"{cpu:.2f}",
            f"{cpu / least['cpu_s']:.2f}",
            f"{each['peak_mb']:.0f}" if "peak_mb" in each else "",
        )
    console = Console()
    console.print(f"{arguments.requests:,} requests, {size / 1e6:.1f} MB")
    console.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"bytes": size, "figures": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
