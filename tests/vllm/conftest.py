"""Which vLLM is asked?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The Python of an environment with vLLM and the test's models, which `make test-vllm` sets up."""
    value = os.environ.get("KVAGENT_VLLM")
    if not value:
        pytest.skip("needs vLLM: `make test-vllm`")
    return Path(value)
