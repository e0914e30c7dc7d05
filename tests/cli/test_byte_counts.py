from __future__ import annotations

import pytest

from kvagent.cli.byte_counts import said


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (2**30, "1.00 GiB"),
        (3 * 2**29, "1.50 GiB"),
        (5000 * 2**40, "5,000.00 TiB"),
    ],
)
def test_the_largest_unit_of_which_there_is_one(count: int, text: str) -> None:
    assert said(count) == text
