"""What do context policies cost and lose on recorded sessions: LangChain's own three, and kvagent's?

Each policy gets the requests that the agent would have sent and the same window; the neutral meter ``score.py``
compares what went out with what came in. ``ratio`` is uncached prefill over that of an endless window, ``total``
adds what fetching lost sources again would cost; ``at_risk`` and ``grounded`` are the shares still visible of what
the agent went on to use and only an old tool result held. Then the made session ``requests_long.jsonl``, under the
default policy and without a window, by ``meter.py``.

    make .venvs/benchmarks/.ready
    .venv/bin/python benchmarks/policies.py [--window 32000 16000] [--only WORD] [--json OUT]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recordings import ROOT, meter, shared
from rich.console import Console
from rich.table import Table

LANGCHAIN = ROOT / ".venvs" / "benchmarks" / "bin" / "python"
# Name, and the turns taken of the session: all of them where None.
SESSIONS = {
    "claudecode_196820da": None,
    "claudecode_3fe1b6bc": None,
    "codex_rollout_019e1625": None,
    "pi_before-compaction": 150,
}
POLICIES = {
    "trim": "trim_messages",
    "clear": "ClearToolUsesEdit",
    "summarise": "SummarizationMiddleware",
    "kvagent": "kvagent",
}
MEASURES = ("ratio", "total", "at_risk", "grounded")


@dataclass(frozen=True, slots=True)
class Row:
    """What a policy did to a session at a window."""

    window: int
    policy: str
    session: str
    measured: dict[str, Any]


def rewritten(policy: str, source: Path, out: Path, window: int | None, langchain: Path) -> Path:
    """The requests as the policy would have sent them."""
    given = [] if window is None else ["--window", str(window)]
    if policy == "kvagent":
        program = Path(sys.executable).with_name("kvagent")
        command = [program, "rewrite", source, "-o", out, *given]
    else:
        script = Path(__file__).with_name("langchain_rewrites.py")
        command = [langchain, script, policy, source, out, *given]
    subprocess.run(command, check=True)
    return out


def rows(windows: Sequence[int], only: str, langchain: Path, folder: Path) -> Iterator[Row]:
    recorded, score = meter("to_requests"), meter("score")
    policies = [policy for policy in POLICIES if only in policy]
    for session, turns in SESSIONS.items():
        source = folder / f"{session}.jsonl"
        limit = {} if turns is None else {"max_turns": turns}
        with source.open("w", encoding="utf-8") as file:
            for request in recorded.requests(shared() / "data" / f"{session}.jsonl", **limit):
                file.write(json.dumps(request, ensure_ascii=False) + "\n")
        for window in windows:
            for policy in policies:
                wire = rewritten(policy, source, folder / "wire.jsonl", window, langchain)
                measured = score.score(source, wire)
                measured["over"] = _over(wire, window, score)
                yield Row(window, policy, session, measured)


def _over(wire: Path, window: int, score: Any) -> int:
    """Requests that do not fit into the window."""
    over = 0
    with wire.open(encoding="utf-8") as lines:
        for line in lines:
            messages = (json.dumps(m, ensure_ascii=False) for m in json.loads(line)["messages"])
            over += sum(score.info(message)[0] for message in messages) > window
    return over


def shown(found: Sequence[Row], window: int) -> Table:
    table = Table(title=f"window of {window:,} tokens", title_justify="left")
    for name in ("policy", "session"):
        table.add_column(name)
    for name in ("ratio", "total", "peak", "over", "breaks", "faults", "at risk", "grounded"):
        table.add_column(name, justify="right")
    for policy, title in POLICIES.items():
        those = [row for row in found if (row.window, row.policy) == (window, policy)]
        for row in those:
            one = row.measured
            counts = [f"{one[name]:,}" for name in ("peak", "over", "breaks", "pair_faults")]
            ratio, total, at_risk, grounded = (_decimal(one[name]) for name in MEASURES)
            table.add_row(title, row.session, ratio, total, *counts, at_risk, grounded)
        if those:
            ratio, total, at_risk, grounded = (_decimal(_mean(those, name)) for name in MEASURES)
            blank = [""] * 4
            table.add_row(
                title,
                "mean",
                ratio,
                total,
                *blank,
                at_risk,
                grounded,
                style="bold",
                end_section=True,
            )
    return table


def _mean(those: Sequence[Row], name: str) -> float:
    values = [row.measured[name] for row in those if row.measured[name] is not None]
    return sum(values) / len(values)


def _decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def long_session(folder: Path) -> dict[str, dict[str, Any]]:
    """The made session as it was sent, and under the default policy."""
    source = shared() / "cases" / "requests_long.jsonl"
    wire = rewritten("kvagent", source, folder / "long.jsonl", None, LANGCHAIN)
    measure = meter("meter").measure
    needles = ("needle_4711", "KESTREL-77")
    found = {"as sent": measure(source, needles=needles), "kvagent": measure(wire, needles=needles)}
    for measured in found.values():
        del measured["rows"]
    return found


def needed(langchain: Path, only: str) -> None:
    """Say what is missing before anything runs for minutes."""
    wanted = any(only in policy for policy in POLICIES if policy != "kvagent")
    if wanted and not langchain.is_file():
        raise SystemExit(
            f"no Python with LangChain at {langchain}: run `make .venvs/benchmarks/.ready`, name "
            "another with --langchain-python, or measure kvagent alone with --only kvagent"
        )
    lab = Path(os.environ.get("KVLAB") or Path.home() / ".cache" / "kvlab")
    if not (lab / "qwen" / "tokenizer.json").is_file():
        raise SystemExit(f"no tokenizer for meter.py in {lab}: run {shared() / 'measure/setup.sh'}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--window", type=int, nargs="+", default=[32_000, 16_000])
    parser.add_argument("--only", default="", metavar="WORD", help="policies with this in the name")
    parser.add_argument("--langchain-python", type=Path, default=LANGCHAIN, metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    needed(options.langchain_python, options.only)
    console = Console(width=130)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = list(rows(options.window, options.only, options.langchain_python, folder))
        for window in options.window:
            console.print(shown(found, window))
        long = long_session(folder)
    for which, measured in long.items():
        console.print(
            f"requests_long, {which}: {measured['prefill']:,} tokens of prefill, "
            f"{measured['breaks']} breaks, {measured['needles']} of 2 needles"
        )
    if options.json:
        report = {"sessions": [asdict(row) for row in found], "requests_long": long}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
