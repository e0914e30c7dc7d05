"""Does the script of the demo's agent fit any place where kvagent may be installed?"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from kvagent.cli.demo import script, tools
from kvagent.cli.demo.tools import Toolbox

PACKAGE = Path(tools.__file__).resolve().parents[2]


@pytest.mark.parametrize("root", [tools.find_root(), PACKAGE], ids=["checkout", "wheel"])
def test_the_script_finds_what_it_asks_for(root: Path) -> None:
    """In a checkout, and in an installed package, which has neither git nor a licence beside it."""
    turns = script.steps(root)
    toolbox = Toolbox(root)
    results = [toolbox.call(call.tool, call.arguments) for step in turns for call in step.calls]
    assert len(turns) >= 12
    assert not [result for result in results if result.startswith("error")]
    long, *short = sorted(results, key=len, reverse=True)
    assert len(long) > 20_000
    assert sum(map(len, short)) < 3_000, "the window is small"
    calls = [script.opening(root)[1], *(call for step in turns for call in step.calls)]
    assert {call.tool for call in calls} == {
        definition["function"]["name"] for definition in tools.DEFINITIONS
    }


def test_an_answer_is_followed_by_the_user() -> None:
    turns = script.steps(PACKAGE)
    for step, following in itertools.pairwise(turns):
        assert bool(step.calls) != bool(following.user)
