"""Are files that a tool shows with numbered lines read as the files they are?"""

from __future__ import annotations

import pytest

from kvagent.shorten import code, markdown
from kvagent.shorten.result import count_lines


def numbered(text: str) -> str:
    """As a tool shows a file that ends with a line feed: the last number has nothing behind it."""
    return "\n".join(f"{n:6}→{line}" for n, line in enumerate(text.split("\n"), 1))


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_number_with_nothing_behind_it(end: str) -> None:
    document = "".join(f"## Part {n}\n\nSome words about part {n}.\n\n" for n in range(40))
    program = "import os\n" + "".join(
        f"def f{n}(a):\n    return os.path_{n}(a)\n" for n in range(60)
    )
    for module, text in ((markdown, numbered(document) + end), (code, numbered(program) + end)):
        shortened = module.shorten(text, 900)
        assert shortened is not None
        assert shortened.kept + shortened.dropped == count_lines(text)
