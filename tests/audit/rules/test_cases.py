"""Is each injected fault found, with the turn, the message and the character?

What is true of a recording is found here by a plain comparison of its lines, which shares no code with
what is tested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.rule import Sighting
from tests.audit.rules.sightings import codes, findings, of_file, qwen

Truth = tuple[str, int, int | None, int | None, int]
"""Code, turn, message, tool, character."""

DEMO = Path(__file__).parents[3] / "examples" / "transcripts" / "demo.jsonl"


def first_difference(one: str, other: str) -> int:
    for at, (before, after) in enumerate(zip(one, other, strict=False)):
        if before != after:
            return at
    return min(len(one), len(other))


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def outermost(one: Any, other: Any) -> tuple[Any, Any]:
    """The objects nearest to the outside whose keys come in another order."""
    if list(one) != list(other):
        return one, other
    inner = next(key for key in one if compact(one[key]) != compact(other[key]))
    return outermost(one[inner], other[inner])


def bodies(path: Path) -> list[Any]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line.get("body", line) for line in lines]


def truths(path: Path) -> Iterator[Truth]:
    """What differs in the head from one line to the next."""
    requests = bodies(path)
    for turn, (old, new) in enumerate(pairwise(requests), 2):
        one, other = (each["messages"][0]["content"] for each in (old, new))
        if one != other:
            yield "KVA101", turn, 0, None, first_difference(one, other)
        tools = (
            [each["function"] for each in old["tools"]],
            [each["function"] for each in new["tools"]],
        )
        names = [[each["name"] for each in side] for side in tools]
        assert sorted(names[0]) == sorted(names[1])
        for at, (before, after) in enumerate(zip(*names, strict=True)):
            if before != after:
                yield "KVA104", turn, None, at, first_difference(before, after)
                break
        known = {each["name"]: each["parameters"] for each in tools[0]}
        for at, tool in enumerate(tools[1]):
            before, after = compact(known[tool["name"]]), compact(tool["parameters"])
            if before != after:
                one, other = outermost(known[tool["name"]], tool["parameters"])
                yield "KVA105", turn, None, at, first_difference(compact(one), compact(other))
                break


def truth_of(each: Sighting) -> Truth:
    spot = each.spot
    assert spot.conversation == 0
    assert spot.character is not None
    return each.rule.code, spot.turn, spot.message, spot.tool, spot.character


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("requests", {"KVA101": 7, "KVA104": 5}),
        ("requests_keyorder", {"KVA105": 7}),
        ("requests_clean", {}),
        ("requests_long", {}),
    ],
)
def test_each_injected_fault(name: str, expected: dict[str, int], shared: Path) -> None:
    path = shared / "cases" / f"{name}.jsonl"
    truth = set(truths(path))
    counts = {code: sum(each[0] == code for each in truth) for code in codes(of_file(path))}
    assert counts == expected
    assert {truth_of(each) for each in of_file(path, qwen(shared))} == truth


def test_the_first_fault_in_the_prompt_has_the_cost(shared: Path) -> None:
    found = of_file(shared / "cases" / "requests.jsonl", qwen(shared))
    clock, tools = findings(found)
    assert (clock.rule.code, clock.count) == ("KVA101", 7)
    assert 70_000 < clock.tokens < 80_000
    assert (tools.rule.code, tools.count, tools.tokens) == ("KVA104", 5, 0)
    assert {spot.behind for spot in tools.spots} == {"KVA101"}
    assert "KVA101 stands in front" in tools.said
    (keys,) = findings(of_file(shared / "cases" / "requests_keyorder.jsonl", qwen(shared)))
    assert 11_000 < keys.tokens < 14_000


def texts_of(message: Any) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(each["text"] for each in content)


def test_the_recording_of_the_demo() -> None:
    """A clock, tools and schemas in another order, arguments dumped anew, a reminder that moves."""
    moved: set[tuple[int, int, int]] = set()
    arguments: dict[bool, dict[tuple[int, int], int]] = {True: {}, False: {}}
    requests = bodies(DEMO)
    for turn, (old, new) in enumerate(pairwise(requests), 2):
        for at, (one, other) in enumerate(zip(old["messages"], new["messages"], strict=False)):
            was, now = texts_of(one), texts_of(other)
            if at and was != now:
                assert was.startswith(now)
                assert was[len(now) :].strip() in texts_of(new["messages"][-1])
                moved.add((turn, at, len(now)))
            for before, after in zip(
                one.get("tool_calls") or (), other.get("tool_calls") or (), strict=True
            ):
                texts = [each["function"]["arguments"] for each in (before, after)]
                if texts[0] != texts[1]:
                    values = [json.loads(text) for text in texts]
                    assert values[0] == values[1]
                    same = compact(values[0]) == compact(values[1])
                    arguments[same].setdefault((turn, at), first_difference(*texts))
    assert moved
    assert all(arguments.values())

    found = of_file(DEMO)
    assert codes(found) == {"KVA101", "KVA104", "KVA105", "KVA201", "KVA207"}
    spots = [each.spot for each in found if each.rule.code == "KVA207"]
    assert {(spot.turn, spot.message, spot.character) for spot in spots} == moved
    for only_looks, truth in arguments.items():
        seen = [
            each
            for each in found
            if each.rule.code == "KVA201" and ("blanks" in each.said) is only_looks
        ]
        assert sum(each.count for each in seen) == len(truth)
        for each in seen:
            assert each.spot.message is not None
            assert truth[each.spot.turn, each.spot.message] == each.spot.character
    assert {truth_of(each) for each in found if each.rule.code < "KVA2"} == set(truths(DEMO))
