"""Are the calls of a trace of Mooncake those that it names?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.audit.formats.files import hashed, items, unreadable


def test_a_line_a_call(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"timestamp": 1500, "input_length": 1000, "output_length": 6, "hash_ids": [0, 1]},
        {"timestamp": 0, "input_length": 10, "hash_ids": ["a"]},
        {"timestamp": 0, "input_length": -1, "hash_ids": []},
    ]
    (call,) = hashed(tmp_path, *lines)
    assert (call.blocks, call.block_size, call.prompt_tokens) == ([0, 1], 512, 1000)
    assert (call.completion_tokens, call.time_s) == (6, 1.5)
    assert len(unreadable(items(tmp_path, *lines))) == 2
