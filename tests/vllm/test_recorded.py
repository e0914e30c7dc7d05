"""Are the recordings that other tests rely on still what a real vLLM says?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prefixcache.recording import FOLDER, Recording
from tests.vllm.record import SETUPS, record


@pytest.mark.parametrize("name", SETUPS)
def test_a_server_says_what_was_recorded(vllm_python: Path, name: str) -> None:
    assert (
        record(SETUPS[name], vllm_python).scenarios
        == Recording.load(FOLDER / f"{name}.json").scenarios
    )
