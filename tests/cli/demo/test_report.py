"""Does the demo's report say what the server said, and fit the terminal?"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kvagent.cli.demo import script, tools
from kvagent.cli.demo.agent import Turn
from kvagent.cli.demo.report import as_json, floor_tokens, render


def some_turns(factor: int = 1) -> list[Turn]:
    labels = [step.label for step in script.steps(tools.find_root())]
    return [
        Turn(label, 500 * number, 100 * (number - 1) * factor, 40, 123.456)
        for number, label in enumerate(labels, 1)
    ]


def test_the_report_has_the_sums() -> None:
    turns = some_turns()
    assert as_json({"raw": turns, "kvagent": turns}) == {
        name: {
            "turns": 12,
            "prompt_tokens": 39_000,
            "cached_tokens": 6_600,
            "prefilled_tokens": 32_400,
            "ttft_s_median": 123.456,
        }
        for name in ("raw", "kvagent")
    } | {"floor_tokens": 6_000 - 11 * 40}


def test_the_floor_is_the_last_prompt_without_earlier_replies() -> None:
    assert floor_tokens([Turn("", 100, 0, 10, 1.0), Turn("", 150, 109, 99, 1.0)]) == 140


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("names", [["raw", "kvagent"], ["clean"]])
def test_everything_fits(width: int, names: list[str]) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(render({name: some_turns(4) for name in names}, console))
    text = console.export_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert text.count("read_file") == sum(
        step.label == "read_file" for step in script.steps(tools.find_root())
    )
    assert "█" in text
    assert "░" in text


def test_a_terminal_without_unicode_gets_its_chart_too() -> None:
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii") as file:
        console = Console(width=80, record=True, file=file)
        console.print(render({"raw": some_turns(4)}, console))
    assert "###" in console.export_text()
