"""Where is vLLM, if it is on this machine?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The Python of the environment that has vLLM; tests that ask for it are skipped without it."""
    named = os.environ.get("KVAGENT_VLLM")
    if not named:
        pytest.skip("vLLM runs in `make test-vllm`, which says where it is in KVAGENT_VLLM")
    return Path(named)
