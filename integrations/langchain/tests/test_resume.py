"""Does an agent that is resumed elsewhere send the bytes that it would have sent?"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from .resumed_agent import BROKEN, HOWS
from .task_server import task_server

ROOT = Path(__file__).parents[3]
TASKS = 6
# Calls of model and tools in all of it.
CALLS = 60


class Processes:
    """Has each piece of work done by a process of its own."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def run(self, *arguments: object) -> int:
        """The exit status."""
        program = self._program
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("\t".join(map(str, arguments)) + "\n")
        program.stdin.flush()
        status = int(program.stdout.readline())
        assert status in (0, BROKEN)
        return status


@contextmanager
def started(seed: int) -> Iterator[Processes]:
    """``seed`` is that of Python's hashes, by which sets and dicts are ordered."""
    command = [sys.executable, "-m", "integrations.langchain.tests.resumed_agent"]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as program:
        try:
            yield Processes(program)
        finally:
            program.kill()


@pytest.fixture(scope="module")
def processes() -> Iterator[list[Processes]]:
    with ExitStack() as stack:
        yield [stack.enter_context(started(seed)) for seed in (1, 2)]


@pytest.mark.parametrize(
    ("way", "kind", "times", "seed"),
    [("sync", "plain", 10, 1), ("sync", "raw", 3, 2), ("async", "plain", 3, 3)],
)
def test_an_agent_resumed_in_other_processes_sends_the_same_bytes(
    processes: list[Processes], tmp_path: Path, way: str, kind: str, times: int, seed: int
) -> None:
    """It is broken off so many times at random; a call that is made once more is the same."""
    chance = random.Random(seed)
    with task_server() as server:
        whole = (tmp_path / "whole.db", server.base_url, way, kind, TASKS, 0, "never")
        assert processes[0].run(*whole) == 0
        expected = server.bodies
    with task_server() as server:
        broken = tmp_path / "broken.db", server.base_url, way, kind, TASKS
        for turn in range(times):
            at, how = chance.randint(1, CALLS // times - 1), chance.choice(HOWS)
            assert processes[turn % 2].run(*broken, at, how) == BROKEN, (at, how)
        assert processes[times % 2].run(*broken, 0, "never") == 0
        sent = server.bodies
    assert [body for body, _ in groupby(sent)] == expected
    assert len(expected) == 5 * TASKS
