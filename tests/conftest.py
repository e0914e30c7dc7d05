"""What do many tests share?"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real sessions, request sequences and meters, which is not part of the repository.

    It lies beside the checkout, or where KVAGENT_SHARED says. A test that asks for it is skipped without it.
    """
    folder = Path(os.environ.get("KVAGENT_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(
            f"no recorded sessions at {folder}: set KVAGENT_SHARED to the folder that has them"
        )
    return folder


@pytest.fixture(scope="session")
def llamacpp() -> Iterator[str]:
    """The base URL of a real llama.cpp server, one for the whole run."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (group demo)")
    from kvagent.cli.demo.server import LlamaCpp

    with LlamaCpp() as server:
        yield server.base_url


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell lets what it starts in the background ignore interrupts, and what that starts as well."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
