"""Can every colour of a picture be told from the page, and stands each in the style once?"""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

STYLE = files("kvagent.audit.report.page").joinpath("style.css").read_text(encoding="utf-8")
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", STYLE)
}
PICTURES = ["head", "user", "assistant", "tool", "cached", "lost", "fresh", "refused", "bad"]


def brightness(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_a_picture_stands_out(name: str, mode: int) -> None:
    """As WCAG AA asks of what is no text: 3 to 1."""
    low, high = sorted((brightness(COLOURS[name][mode]), brightness(COLOURS["page"][mode])))
    assert (high + 0.05) / (low + 0.05) >= 3


def test_a_colour_stands_nowhere_else() -> None:
    rules = re.sub(r"--\w+: light-dark\([^)]*\)", "", STYLE)
    assert not re.search(r"#[0-9a-f]{3,8}\b(?!\w)|rgba?\(|hsl", rules)


def test_what_is_wasted_is_told_by_stripes_and_not_by_colour_alone() -> None:
    assert ".wasted { fill: url(#stripes); }" in STYLE
