"""How much CPU time does a wrapped call take, against a bare one?

The same client against a null server, in one run: bare and wrapped calls in turn with the same
growing history, so that whatever disturbs the machine disturbs both. Prints medians of CPU time,
the median of the paired ratios, and the time that kvagent adds; a second table has an agent whose
clock ticks, so that every head is new and nothing can be resumed.

    python benchmarks/overhead.py [--json OUT] [--pairs 40]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from null_server import null_server
from openai import OpenAI

import kvagent

LENGTHS = (10, 100, 1_000, 5_000)

# Some 100 characters a message: 5,000 messages are about 128,000 tokens.
_TEXT = "The tests of module {0} pass; file src/part_{0}.py has {0} lines, the next one is longer."


def tools(count: int = 12) -> list[dict[str, Any]]:
    """Tools of an ordinary agent."""
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{number}",
                "description": "Does one thing to a file of the repository. " * 3,
                "parameters": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string", "description": "path in the repository"},
                        "limit": {"type": "integer"},
                    },
                    "required": ["path"],
                },
            },
        }
        for number in range(count)
    ]


def turn(number: int) -> list[dict[str, Any]]:
    """A call and its result."""
    function = {"name": "tool_1", "arguments": json.dumps({"path": f"src/part_{number}.py"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "Done.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": _TEXT.format(number)},
    ]


def history(length: int) -> list[dict[str, Any]]:
    """A system message, the task, and turns up to a length."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent that works in a repository. " * 40},
        {"role": "user", "content": "Find out why the build fails, and mend it."},
    ]
    while len(messages) < length:
        messages += turn(len(messages))
    return messages[:length]


def measure(base_url: str, length: int, pairs: int, ticking: bool) -> dict[str, float]:
    """Medians over pairs of calls with a history that grows from ``length`` on."""
    bare = OpenAI(base_url=base_url, api_key="none")
    wrapped = kvagent.wrap(bare)
    offered = tools()
    messages = history(length)
    times: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs + 3):
        system = dict(messages[0])
        if ticking:
            system["content"] = (
                f"Current time: 12:{pair // 60:02d}:{pair % 60:02d}\n{system['content']}"
            )
        request = [system, *messages[1:]]
        # Which of the two goes first alternates: the second finds warm caches.
        for which in (0, 1) if pair % 2 else (1, 0):
            client = (bare, wrapped)[which]
            start = time.process_time()
            client.chat.completions.create(
                model="null",
                messages=request,  # type: ignore[arg-type]
                tools=offered,  # type: ignore[arg-type]
            )
            if pair >= 3:
                times[which].append(time.process_time() - start)
        messages += turn(len(messages))
    ratios = [b / a for a, b in zip(*times, strict=True)]
    return {
        "messages": length,
        "bare_ms": 1e3 * statistics.median(times[0]),
        "wrapped_ms": 1e3 * statistics.median(times[1]),
        "ratio": statistics.median(ratios),
        "added_ms": 1e3 * statistics.median(b - a for a, b in zip(*times, strict=True)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, list[dict[str, float]]] = {}
    with null_server() as base_url:
        for name, ticking in (("stable", False), ("ticking", True)):
            print(
                f"{name} head\n{'messages':>9} {'bare ms':>9} {'wrapped':>9} {'ratio':>7} {'added':>7}"
            )
            report[name] = []
            for length in LENGTHS:
                pairs = options.pairs if length < 1_000 else max(8, options.pairs // 3)
                row = measure(base_url, length, pairs, ticking)
                report[name].append(row)
                print(
                    f"{length:>9,} {row['bare_ms']:>9.2f} {row['wrapped_ms']:>9.2f} "
                    f"{row['ratio']:>7.3f} {row['added_ms']:>7.2f}",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
