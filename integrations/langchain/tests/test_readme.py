"""Does what the README shows run?"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from .record import recorded

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
ADDRESS = "http://127.0.0.1:8000/v1"


def hello(request: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "Hello yourself."}


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_runs(block: str) -> None:
    if "deepagents" in block and find_spec("deepagents") is None:
        pytest.skip("deepagents is not installed (group deepagents)")
    assert ADDRESS in block
    with recorded(answer=hello) as record:
        exec(compile(block.replace(ADDRESS, record.base_url), "README.md", "exec"), {})
        assert len(record.requests) == 1
        assert "Hello" in str(record.requests[0]["messages"])


def test_every_way_in_is_shown() -> None:
    import kvagent_langchain

    told = set(re.findall(r"\w+", README))
    assert set(kvagent_langchain.__all__) - told <= {"KVChatOpenAI", "MissingUsageWarning"}
