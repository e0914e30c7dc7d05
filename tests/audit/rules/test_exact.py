"""What does the model's own prompt show of a change, and what not?"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from kvagent.audit.rule import Sighting
from tests.audit.logs import TOOLS, Message, call, reply, request, result, user
from tests.audit.rules.sightings import qwen, sightings

RULES_TEXT = "\n".join(f"Rule {number}: be careful with step {number}." for number in range(20))
OLD = [
    {"role": "system", "content": RULES_TEXT},
    user("Please look at the file, and then tell me the weather."),
    call("read", "call_1", '{"path":"a.py","deep":true}'),
    result('{"lines": 3, "words": ["of", "text", "and", "no", "more", "than", "that"]}', "call_1"),
    reply("It has three lines of text, and no more than that."),
    user("go on"),
]
MORE = [call("read", "call_3"), result("the other file", "call_3")]


def seen(shared: Path, old: Message, at: int, new: Message) -> list[Sighting]:
    before = [*OLD[:at], old, *OLD[at + 1 :]]
    after = [*OLD[:at], new, *OLD[at + 1 :], *MORE]
    log = [request(before, 1, tools=TOOLS), request(after, 2, tools=TOOLS)]
    return sightings(log, qwen(shared))


def test_arguments(shared: Path) -> None:
    """Qwen's template writes them anew: blanks are lost on the way, the order of keys is not."""
    blanks = call("read", "call_1", '{"path": "a.py", "deep": true}')
    assert seen(shared, OLD[2], 2, blanks) == []
    (fault,) = seen(shared, OLD[2], 2, call("read", "call_1", '{"deep":true,"path":"a.py"}'))
    assert (fault.rule.code, fault.spot.message, fault.spot.character) == ("KVA201", 2, 2)
    assert fault.spot.tokens > 50


def test_a_result_that_is_json(shared: Path) -> None:
    other = OLD[3]["content"].replace(", ", ",").replace(": ", ":")
    (fault,) = seen(shared, OLD[3], 3, result(other, "call_1"))
    assert (fault.rule.code, fault.spot.message) == ("KVA202", 3)
    assert fault.spot.tokens > 20


def test_ids_are_not_shown(shared: Path) -> None:
    (fault,) = seen(shared, OLD[2], 2, call("read", "call_x", '{"path":"a.py","deep":true}'))
    assert (fault.rule.code, fault.spot.tokens) == ("KVA209", 0)
    assert "does not show" in fault.said


def test_reasoning_is_not_shown_by_this_model(shared: Path) -> None:
    thought = {**OLD[4], "reasoning_content": "I count the lines: there are three of them."}
    assert seen(shared, thought, 4, OLD[4]) == []


@pytest.mark.parametrize(
    ("header", "expected"),
    [("x-anthropic-billing-header", []), ("x-other-billing-header", ["KVA102"])],
)
def test_a_header_that_vllm_leaves_out(header: str, expected: list[str], shared: Path) -> None:
    one, other = (
        [{"type": "text", "text": f"{header}: cch={cch};"}, {"type": "text", "text": RULES_TEXT}]
        for cch in ("3f8a1", "0c9b2")
    )
    found = seen(shared, {**OLD[0], "content": one}, 0, {**OLD[0], "content": other})
    assert [each.rule.code for each in found] == expected


def test_an_option_that_the_template_does_not_know(shared: Path) -> None:
    log = [
        request(OLD, 1, options={"reasoning_effort": "low"}),
        request([*OLD, *MORE], 2, options={"reasoning_effort": "high"}),
    ]
    assert sightings(log, qwen(shared)) == []
    assert [each.rule.code for each in sightings(log)] == ["KVA108"]


@pytest.mark.parametrize(("where", "expected"), [("head", ["KVA104"]), ("nowhere", [])])
def test_tools_that_the_template_does_not_show(
    where: Literal["head", "nowhere"], expected: list[str]
) -> None:
    pytest.importorskip("jinja2", reason="needs the extra `exact`")
    from tests.audit.rules.test_template import exact, toy

    log = [
        request(OLD, 1, tools=TOOLS),
        request([*OLD, *MORE], 2, tools=TOOLS[::-1]),
    ]
    seen = sightings(log, exact(toy(tools=where)).prompts)
    assert [each.rule.code for each in seen] == expected
