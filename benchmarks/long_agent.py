"""How far does an agent get in a small window, on a real llama.cpp?

A scripted agent with real tools plays 60 turns in a window of 8,192 tokens. What it was told grows
to several times that; raw, it would be refused. Beside the server's counts stands the floor: each
token that the agent ever adds prefilled once, as in a window without end.

    python benchmarks/long_agent.py [--misreported] [--tiny] [--json OUT]

``--misreported`` tells kvagent a window four times as large, so that the server refuses the prompt
first. ``--tiny`` takes a model of a few layers with random weights and the same tokenizer: its
words mean nothing, but what is cached depends on tokens alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openai import OpenAI

import kvagent
from kvagent import Edited, Event, Overflowed, Policy
from kvagent.cli.demo.agent import Agent, Turn
from kvagent.cli.demo.script import Call, Step
from kvagent.cli.demo.server import CHAT_TEMPLATE, LlamaCpp, default_model
from kvagent.cli.demo.tools import Toolbox, find_root
from kvagent.tokens.model import Model
from kvagent_openai import Summarizer, engine_of

sys.path.insert(0, str(Path(__file__).parents[1]))

WINDOW = 8_192
TURNS = 60


def script(root: Path) -> list[Step]:
    """Reads, searches and listings of the package, now and then with a word of the user's."""
    files = sorted(path for path in (root / "kvagent").rglob("*.py") if path.stat().st_size > 1_500)
    names = [path.relative_to(root).as_posix() for path in files]
    words = ["def ", "class ", "raise ", "return None", "import re", "frozenset", "dataclass"]
    steps: list[Step] = []
    for number in range(TURNS):
        name = names[number * 7 % len(names)]
        turn = number % 6
        if turn == 0:
            steps.append(
                Step(
                    f"What does {name} do? The port stays {8_000 + number}.", (_read(name, 1, 40),)
                )
            )
        elif turn == 1:
            steps.append(Step(calls=(_read(name, 1, 90),)))
        elif turn == 2:
            pattern = words[number // 6 % len(words)]
            steps.append(Step(calls=(Call("grep", {"pattern": pattern, "folder": "kvagent"}),)))
        elif turn == 3:
            folder = str(Path(name).parent)
            steps.append(Step(calls=(Call("list_files", {"folder": folder}), _read(name, 1, 20))))
        elif turn == 4:
            steps.append(Step(calls=(_read(name, 20, 60),)))
        else:
            steps.append(Step())
    return steps


def _read(path: str, first: int, last: int) -> Call:
    return Call("read_file", {"path": path, "first": first, "last": last})


def run(
    model: Path, threads: int, window: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One session: its figures, as the server counts, and the requests of the agent."""
    events: list[Event] = []
    asked: list[dict[str, Any]] = []
    raw: list[dict[str, Any]] = []
    with LlamaCpp(model, CHAT_TEMPLATE, n_ctx=WINDOW, threads=threads) as server:
        client = OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=600)
        summarize = Summarizer(client)

        def told(request: dict[str, Any]) -> Any:
            reply = summarize(request)
            usage = reply.counts["usage"]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            asked.append({"prompt_tokens": usage["prompt_tokens"], "cached_tokens": cached})
            return reply

        policy = Policy(window=window)
        wrapped = kvagent.wrap(client, policy=policy, on_event=events.append, summarizer=told)
        turns = _play(wrapped, lambda body, _: raw.append(body))
        bill = engine_of(wrapped).meter.bill()
    floor = _floor(model, raw[-1], turns)
    prefilled = sum(turn.prefilled_tokens for turn in turns)
    figures = {
        "turns": len(turns),
        "floor_tokens": floor,
        "prefilled_tokens": prefilled,
        "own_prefilled_tokens": bill.own_prefilled_tokens,
        "ratio": round(prefilled / floor, 3),
        "ratio_with_own_calls": round((prefilled + bill.own_prefilled_tokens) / floor, 3),
        "peak_prompt_tokens": max(turn.prompt_tokens for turn in turns),
        "refused": sum(isinstance(event, Overflowed) for event in events),
        "edits": _counted(event for event in events if isinstance(event, Edited)),
        "batches": [
            [edit.stage, edit.index, edit.count, edit.freed_tokens, edit.cost_tokens, edit.detail]
            for edit in events
            if isinstance(edit, Edited) and edit.stage in ("clear", "compact")
        ],
        "summary_calls": asked,
    }
    return figures, raw


def _play(client: OpenAI, record: Any) -> list[Turn]:
    root = find_root()
    agent = Agent(client, Toolbox(root), None, record=record, on_turn=_progress)
    turns = agent.run(script(root))
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    return turns


def _progress(turn: Turn) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{turn.prompt_tokens:6} tokens, {turn.prefilled_tokens:6} prefilled ")
        sys.stderr.flush()


def _floor(model: Path, last: dict[str, Any], turns: Sequence[Turn]) -> int:
    """Tokens of the whole conversation as the agent sent it, less what the model generated."""
    prompt = len(Model.from_gguf(model, template=CHAT_TEMPLATE.read_text()).tokens(last))
    return prompt - sum(turn.completion_tokens for turn in turns[:-1])


def _counted(edits: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for edit in edits:
        counts[edit.stage] = counts.get(edit.stage, 0) + 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--misreported", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--record", type=Path, help="where the agent's requests go, one a line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = default_model()
        if options.tiny:
            from tests.tiny_model import write

            model = write(Path(folder) / "tiny.gguf", model)
        figures, raw = run(model, options.threads, WINDOW * 4 if options.misreported else None)
    if options.record:
        options.record.write_text("".join(json.dumps(body) + "\n" for body in raw))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    for name, value in figures.items():
        print(f"{name:22} {value}")


if __name__ == "__main__":
    main()
