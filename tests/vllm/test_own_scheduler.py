"""Does vLLM's own scheduler give what is predicted, on traffic that nobody thought of?

Its scheduler and block manager run without a model here, so thousands of requests take seconds, and settings can be
tried that a small machine has no model for: several windows, retention, scheduling ahead.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvagent.prefixcache.blocks import BlockCache, Running
from kvagent.prefixcache.hit import Hit

PROGRAM = Path(__file__).with_name("own_scheduler.py")
STOP = 3
LONGEST = 200
AT_A_TIME = 4
SEEDS = 25

Case = Mapping[str, Any]
Ask = Callable[[Case], Mapping[str, Any]]


@pytest.fixture(scope="module")
def ask(vllm_python: Path) -> Iterator[Ask]:
    """What vLLM's scheduler makes of a case."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [vllm_python, PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
        assert process.stdin
        assert process.stdout

        def answer(case: Case) -> Mapping[str, Any]:
            assert process.stdin
            assert process.stdout
            model = vllm_python.parent.parent / "models" / "llama"
            print(json.dumps({"model": str(model), **case}), file=process.stdin, flush=True)
            for line in process.stdout:  # the program's libraries print there, too
                if line.startswith("{"):
                    return dict(json.loads(line))
            raise RuntimeError(os.pread(log.fileno(), 1 << 20, 0).decode()[-3000:])

        yield answer
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def case(seed: int, settings: Mapping[str, Any]) -> Case:
    """Sessions with a common head that grow, fork, go back and are resent, on a pool that is small."""
    draw = random.Random(seed)
    size = draw.choice([4, 8])
    at_once = settings.get("at_once", False)
    windows: Sequence[int | None] = settings.get("windows", (None,))
    smallest = -(-LONGEST // size) * len(windows) + 2
    retention = settings.get("retention", 0)

    def ids(count: int) -> list[int]:
        return draw.choices(range(5, 9), k=count)

    head = ids(draw.choice([0, size, 2 * size + 1, 5 * size]))
    sessions = [head + ids(draw.choice([0, 3, size, 3 * size])) for _ in range(draw.randint(1, 5))]
    requests: list[dict[str, Any]] = []
    step = 0
    for _ in range(draw.randint(5, 40)):
        number = draw.randrange(len(sessions))
        history = sessions[number]
        what = draw.random()
        if what < 0.15 and requests:
            prompt = list(draw.choice(requests)["prompt"])
        elif what < 0.3:
            prompt = history[: draw.randint(0, len(history))] + ids(draw.randint(1, 30))
        else:
            more = [1, 2, size - 1, size, size + 1, draw.randint(1, 40)]
            prompt = history + ids(draw.choice(more))
        prompt = prompt[: LONGEST - 40]
        if draw.random() < 0.3:
            prompt = prompt[: max(size, len(prompt) // size * size)]
        answer = ids(draw.choice([1, 1, 2, 3, size - 1, size, size + 1, draw.randint(1, 39)]))
        stopped = draw.random() < 0.4
        if stopped:
            answer[-1] = STOP
        history = prompt + answer if draw.random() < 0.9 else prompt
        if len(history) > LONGEST - 60:
            history = history[: draw.randint(0, len(history))]
        sessions[number] = history
        step += draw.choice([0, 0, 1, 3, 10, 40])
        requests.append(
            {
                "at": step if at_once else None,
                "prompt": prompt,
                "answer": answer,
                "stopped": stopped,
                "salt": draw.choice([None] * 6 + ["a", "b"]),
                "read": draw.random() > 0.05,
            }
        )
    return {
        "block_size": size,
        "blocks": draw.choice([smallest, smallest + 5, smallest + 20, smallest * 2, smallest * 4]),
        "windows": windows,
        "max_model_len": LONGEST,
        "max_num_seqs": AT_A_TIME,
        "max_num_batched_tokens": draw.choice([8, 16, 24, 50, 64, 400]),
        "retention": retention and retention * size,
        "asynchronous": settings.get("asynchronous", False),
        "requests": requests,
    }


def predicted(one: Case, happened: Sequence[Sequence[Any]]) -> Sequence[Hit | None]:
    """The same traffic in the simulator, in the order in which it happened."""
    cache = BlockCache(**{key: value for key, value in one.items() if key != "requests"})
    running: dict[int, Running] = {}
    told: dict[int, int] = {}
    for what, number, *tokens in happened:
        request = one["requests"][number]
        if what == "begin":
            running[number] = cache.begin(
                request["prompt"], salt=request["salt"], read=request["read"]
            )
        elif what == "extend":
            running[number].extend(request["answer"][told.get(number, 0) : tokens[0]])
            told[number] = tokens[0]
        else:
            rest = request["answer"][told.get(number, 0) :]
            running[number].finish(rest, stopped=request["stopped"])
    return [running[number].hit for number in range(len(one["requests"]))]


ONE_BY_ONE: Mapping[str, Mapping[str, Any]] = {
    "full attention": {},
    "scheduled ahead": {"asynchronous": True},
    "a window": {"windows": (11,)},
    "a window, scheduled ahead": {"windows": (11,), "asynchronous": True},
    "a window and full attention": {"windows": (11, None)},
    "a window and full attention, scheduled ahead": {"windows": (11, None), "asynchronous": True},
    "two groups with a window": {"windows": (None, 30, 30)},
    "all blocks of a window kept": {"windows": (13, None), "retention": None},
    "a window's blocks kept now and then": {"windows": (13, None), "retention": 4},
    "two windows": {"windows": (7, 30)},
    "two windows and full attention": {"windows": (7, 30, None)},
}


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_one_request_after_the_other(ask: Ask, name: str) -> None:
    requests = hits = 0
    for seed in range(SEEDS):
        one = case(seed, ONE_BY_ONE[name])
        said = ask(one)
        hit = [hit and hit.cached_tokens for hit in predicted(one, said["happened"])]
        assert hit == said["cached"], f"seed {seed}"
        requests += len(hit)
        hits += sum(map(bool, hit))
    assert requests > 400
    assert hits > requests / 2


@pytest.mark.parametrize(
    "settings",
    [{}, {"asynchronous": True}, {"windows": (11, None)}],
    ids=["full attention", "scheduled ahead", "a window and full attention"],
)
def test_four_at_a_time_on_a_pool_that_is_far_too_small(
    ask: Ask, settings: Mapping[str, Any]
) -> None:
    """What happens between the moments that a client sees is not known, so some are missed."""
    right = requests = 0
    for seed in range(SEEDS):
        one = case(seed, {**settings, "at_once": True})
        said = ask(one)
        hits = predicted(one, said["happened"])
        right += sum(
            hit is not None and hit.cached_tokens == cached
            for hit, cached in zip(hits, said["cached"], strict=True)
        )
        requests += len(hits)
    assert right >= 0.95 * requests
