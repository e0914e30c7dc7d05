"""Are cached tokens known before a request is sent?

Plays every scenario of ``tests/prediction`` on a real server with a tiny model, and prints for how many
requests the prediction was what the server then reported, beside what the longest common prefix with
anything sent before would have said.

    python benchmarks/prediction.py [--server llamacpp|vllm] [--seeds N] [--only WORD] [--json OUT]

For vLLM, ``--vllm-python`` names the Python of its environment (``make test-vllm`` sets one up).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.prediction.rows import Row, Total, totals  # noqa: E402  (the tests are no package)


def llamacpp(arguments: argparse.Namespace) -> Iterator[Row]:
    from tests.prediction import llamacpp_scenarios as known

    cases = ROOT.parent / "shared" / "cases"
    scenarios = known.scenarios(cases if cases.is_dir() else None, seeds=range(arguments.seeds))
    with tempfile.TemporaryDirectory() as models:
        chosen = (scenario for scenario in scenarios if arguments.only in scenario.name)
        yield from known.run(chosen, Path(models))


def vllm(arguments: argparse.Namespace) -> Iterator[Row]:
    from tests.prediction.vllm_scenarios import play_all

    shared = ROOT.parent / "shared"
    return play_all(arguments.vllm_python, shared if shared.is_dir() else None)


def shown(lines: list[Total], server: str) -> Table:
    table = Table(title=f"{server}: predicted against reported cached tokens", title_justify="left")
    table.add_column("scenario")
    for name in ("requests", "prompt tokens", "cached", "predicted", "naive"):
        table.add_column(name, justify="right")
    for line in lines:
        table.add_row(
            line.scenario,
            str(line.requests),
            f"{line.prompt_tokens:,}",
            f"{line.reported / line.prompt_tokens:.1%}",
            f"{line.predicted_right / line.requests:.1%}",
            f"{line.naive_right / line.requests:.1%}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--server", choices=sorted(SERVERS), default="llamacpp")
    parser.add_argument("--seeds", type=int, default=12, help="random scenarios (llamacpp)")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="scenarios with this in their name (llamacpp)"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="every request, as JSON")
    parser.add_argument("--vllm-python", type=Path, metavar="PYTHON", help="of vLLM's environment")
    arguments = parser.parse_args()
    if arguments.server == "vllm" and arguments.vllm_python is None:
        parser.error("--server vllm needs --vllm-python")
    errors = Console(stderr=True)
    rows: list[Row] = []
    for row in SERVERS[arguments.server](arguments):
        if not rows or rows[-1].scenario != row.scenario:
            errors.print(row.scenario, style="dim", highlight=False)
        rows.append(row)
    lines = list(totals(rows))
    if not lines:
        parser.error(f"no scenario has {arguments.only!r} in its name")
    everything = Total(
        "all",
        len(rows),
        *(sum(getattr(line, name) for line in lines) for name in NUMBERS),
    )
    Console().print(shown([*lines, everything], arguments.server))
    if arguments.json:
        arguments.json.write_text(
            json.dumps([asdict(row) for row in rows]) + "\n", encoding="utf-8"
        )
    sys.exit(0 if everything.predicted_right == everything.requests else 1)


NUMBERS = ("prompt_tokens", "reported", "predicted_right", "naive_right")
SERVERS = {"llamacpp": llamacpp, "vllm": vllm}

if __name__ == "__main__":
    main()
