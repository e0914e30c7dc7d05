"""What of a terminal's output is removed?"""

from __future__ import annotations

import pytest

from kvagent.shorten.clean import clean


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain [31m text", "plain [31m text"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07prompt", "prompt"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bdone\x1b[K", "done"),
        ("cut in the middle \x1b[3", "cut in the middle \x1b[3"),
    ],
)
def test_escapes(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("10%\r20%\r100%\n", "100%\n"),
        ("step 1/3\rstep 2/3\rstep 3/3\ndone", "step 3/3\ndone"),
        ("load |#  |\rload |## |\rready\n", "load |## |\rready\n"),
        ("one\rtwo\rthree", "one\rtwo\rthree"),
        ("1\r2\r3", "1\r2\r3"),
        ("a\r\nb\r\n", "a\r\nb\r\n"),
        ("\r\r\r\n", "\r\r\r\n"),
    ],
)
def test_progress(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
