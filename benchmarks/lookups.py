"""How many blocks a second does the simulator of vLLM's cache look up, on one core?

Agents' sessions in turn: prompts of 10,000 to 20,000 tokens, each 500 tokens longer than the one before, with an
answer. A look-up is one full block of a prompt: hashed, sought, held, and freed again. CPU time of this
process, so other programs disturb it little; the best of some rounds.

    python benchmarks/lookups.py [--json OUT] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kvagent.prefixcache.blocks import BlockCache

SESSIONS = 8
TURNS = range(10_000, 20_000, 500)
ANSWER = 20

Kind = Callable[[], tuple[float, int]]


def of_tokens(block_size: int, blocks: int | None) -> Kind:
    """Prompts of token ids."""
    draw = random.Random(1)
    sessions = [[draw.randrange(100_000) for _ in range(TURNS.stop)] for _ in range(SESSIONS)]
    prompts = [tokens[:turn] for turn in TURNS for tokens in sessions]
    answers = [tokens[turn : turn + ANSWER] for turn in TURNS for tokens in sessions]

    def run() -> tuple[float, int]:
        cache = BlockCache(block_size, blocks)
        start = time.process_time()
        for prompt, answer in zip(prompts, answers, strict=True):
            cache.begin(prompt).finish(answer)
        seconds = time.process_time() - start
        return seconds, sum(len(prompt) // block_size for prompt in prompts)

    return run


def of_hashes(block_size: int, blocks: int | None) -> Kind:
    """The same, where blocks are named by hashes, as in traces."""
    prompts = [
        (list(range(session << 32, (session << 32) + turn // block_size)), turn)
        for turn in TURNS
        for session in range(SESSIONS)
    ]

    def run() -> tuple[float, int]:
        cache = BlockCache(block_size, blocks, exact=False)
        start = time.process_time()
        for hashes, tokens in prompts:
            cache.begin_hashed(hashes, tokens).finish()
        return time.process_time() - start, sum(len(hashes) for hashes, _ in prompts)

    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kinds = {
        "token ids, blocks of 16": of_tokens(16, 20_000),
        "token ids, blocks of 16, endless": of_tokens(16, None),
        "token ids, blocks of 128": of_tokens(128, 2_500),
        "hashes, blocks of 16": of_hashes(16, 20_000),
        "hashes, blocks of 16, endless": of_hashes(16, None),
    }
    report = {}
    print(f"{'':38} {'look-ups a second':>18} {'tokens a second':>18}")
    for name, run in kinds.items():
        seconds, blocks = min(run() for _ in range(options.rounds))
        size = int(name.split("blocks of ")[1].split(",")[0])
        report[name] = {"lookups_per_s": blocks / seconds, "tokens_per_s": blocks * size / seconds}
        print(f"{name:38} {blocks / seconds:>18,.0f} {blocks * size / seconds:>18,.0f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
