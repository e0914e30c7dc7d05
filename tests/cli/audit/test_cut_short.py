"""Is a report written whole or not at all, whatever ends the command?"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.audit.auditing import COMMAND, log, refused


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("form", ["json", "terminal"])
def test_a_full_disk(folder: Path, form: str) -> None:
    arguments = ["clock.jsonl", "--output-format", form]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False
        )
    said = done.stderr.decode()
    assert done.returncode == 2
    assert said == "kvagent audit: cannot write standard output: No space left on device\n"
    assert "cannot write /dev/full: No space left" in refused(*arguments, "-o", "/dev/full")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX pipes")
@pytest.mark.parametrize("form", ["json", "terminal", "github"])
def test_a_reader_that_has_read_enough(folder: Path, form: str) -> None:
    (folder / "long.jsonl").write_bytes(log(60, clock=True))
    script = f'"$@" long.jsonl --no-what-if --output-format {form} && echo ended >&2'
    done = subprocess.run(
        ["/bin/sh", "-c", f"{{ {script}; }} | head -c 1", "sh", *COMMAND],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "ended\n"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_no_half_report(folder: Path) -> None:
    (folder / "report.json").write_bytes(b"old")
    with subprocess.Popen(
        [*COMMAND, "-", "-o", "report.json", "--write-baseline", "known.json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(log())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while len(list(folder.glob(".kvagent-*"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        # One may land where the interpreter can only drop it, in a finaliser: people press it again.
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=2)
        told, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (told, said) == (b"", b"")
    assert (folder / "report.json").read_bytes() == b"old"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["clean.jsonl", "clock.jsonl", "report.json"]
