"""Is a recording written whole or not at all, whatever ends the command?"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.rewrite.recordings import COMMAND, SESSION


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX limits")
def test_a_full_disk_leaves_what_was_there(folder: Path) -> None:
    (folder / "out.jsonl").write_bytes(b"old")
    limited = ["-c", 'ulimit -f 1; exec "$@"', "sh", *COMMAND]
    (folder / "in.jsonl").write_bytes(SESSION * 50)
    done = subprocess.run(
        ["/bin/sh", *limited, "in.jsonl", "-o", "out.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("kvagent rewrite: cannot write a temporary file beside out.jsonl")
    assert "\n" not in done.stderr.rstrip("\n")
    assert (folder / "out.jsonl").read_bytes() == b"old"
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_nothing_half_written(folder: Path) -> None:
    (folder / "out.jsonl").write_bytes(b"old")
    with subprocess.Popen(
        [*COMMAND, "-", "-o", "out.jsonl"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(SESSION)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not list(folder.glob(".kvagent-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        # One may land where the interpreter can only drop it, in a finaliser: people press it again.
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert (folder / "out.jsonl").read_bytes() == b"old"
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
def test_a_reader_that_has_read_enough(folder: Path) -> None:
    (folder / "in.jsonl").write_bytes(SESSION * 200)
    pipe = ["-o", "pipefail", "-c", '"$@" | head -c 10', "sh", *COMMAND, "in.jsonl"]
    done = subprocess.run(["/bin/sh", *pipe[2:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
