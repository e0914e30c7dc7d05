"""Is it told what became of a request's tools?"""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.changes.tools import changes, name_of
from kvagent.fingerprint import identity


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    function = {"name": name, "parameters": {"type": "object", "properties": parameters}}
    return {"type": "function", "function": function}


TOOLS = [tool(name, path={"type": "string"}, deep={"type": "boolean"}) for name in "abcde"]


def between(old: list[Any], new: list[Any]) -> list[tuple[str, int]]:
    found = changes(*([identity(each) for each in side] for side in (old, new)))
    return [(each.what, each.index) for each in found]


@given(st.permutations(TOOLS))
def test_another_order(tools: list[Any]) -> None:
    if tools == TOOLS:
        assert between(TOOLS, tools) == []
        return
    at = next(at for at, pair in enumerate(zip(TOOLS, tools, strict=True)) if pair[0] != pair[1])
    assert between(TOOLS, tools) == [("reordered", at)]


@given(st.permutations(TOOLS), st.integers(0, 5), st.integers(0, 99))
def test_several_at_once(tools: list[Any], size: int, seed: int) -> None:
    chance = random.Random(seed)
    new = [*tools[:size], tool("new")]
    chance.shuffle(new)
    found = dict(between(TOOLS, new))
    assert found["added"] == new.index(tool("new"))
    assert ("removed" in found) is (size < 5)
    assert "redefined" not in found


def test_the_outermost_keys_in_another_order() -> None:
    new = json.loads(json.dumps(TOOLS))
    properties = new[2]["function"]["parameters"]["properties"]
    new[2]["function"]["parameters"]["properties"] = dict(reversed(properties.items()))
    (change,) = changes(list(map(identity, TOOLS)), list(map(identity, new)))
    assert (change.what, change.index, change.names) == ("key_order", 2, ["c"])
    assert change.field == "function.parameters.properties"
    assert list(orjson.loads(change.before)) == ["path", "deep"]
    assert list(orjson.loads(change.after)) == ["deep", "path"]


def test_two_tools_with_one_name_and_odd_ones() -> None:
    odd = [tool("a"), tool("a"), {"type": "web_search"}, {"x": 1}]
    assert between(odd, odd) == []
    assert between(odd, [*odd, tool("a", path={})]) == [("added", 4)]
    assert name_of(b'{"function": {"name": 3}}') == name_of(b"no JSON") == ""
