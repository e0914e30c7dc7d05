"""What holds for every prompt, whatever is to be freed?"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.chat import calls_of, texts_of
from kvagent.clearing import clearable
from kvagent.clearing.passages import arguments_at, texts_at
from kvagent.standing import Standing
from kvagent.volatile import NOTE
from tests.clearing.prompts import after, planned, prompts, tokens, weigh

options = st.fixed_dictionaries(
    {
        "keep": st.integers(0, 3),
        "exclude_tools": st.sampled_from(((), ("read",))),
        "clear_tool_inputs": st.booleans(),
    }
)
frees = st.sampled_from((0, 50, 300, 1500, 10**6))
musts = st.sampled_from((0, 0, 200, 10**6))


def skeleton(message: Any) -> Any:
    """A message without its texts."""
    return (
        {key: value for key, value in message.items() if key not in ("content", "tool_calls")},
        len(texts_of(message)),
        [
            (call["id"], call["type"], call["function"]["name"], _keys(call))
            for call in calls_of(message)
        ],
    )


def _keys(call: Any) -> Any:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return [(key, shape(item)) for key, item in value.items()]
        if isinstance(value, list):
            return [shape(item) for item in value]
        return "text" if isinstance(value, str) else value

    return shape(json.loads(call["function"]["arguments"]))


@settings(deadline=None, max_examples=40)
@given(prompts(), frees, musts, options)
def test_only_texts_change(
    standing: list[Standing], free: int, must: int, options: dict[str, Any]
) -> None:
    by_index = {each.index: each for each in standing}
    for one in planned(standing, free, must=must, **options):
        assert skeleton(one.message) == skeleton(by_index[one.index].sent)


@settings(deadline=None, max_examples=40)
@given(prompts(), frees, musts, options)
def test_each_gets_shorter(
    standing: list[Standing], free: int, must: int, options: dict[str, Any]
) -> None:
    by_index = {each.index: each for each in standing}
    for one in planned(standing, free, must=must, **options):
        before = by_index[one.index]
        assert weigh(one.message) < weigh(before.sent)
        now = dict([*texts_at(before.sent), *arguments_at(before.sent)])
        for place, text in [*texts_at(one.message), *arguments_at(one.message)]:
            assert len(text) <= len(now[place])


@settings(deadline=None, max_examples=40)
@given(prompts(), frees, musts, options)
def test_the_first_and_the_newest_user_message_stay(
    standing: list[Standing], free: int, must: int, options: dict[str, Any]
) -> None:
    users = [each.index for each in standing if each.role == "user"]
    cleared = {one.index for one in planned(standing, free, must=must, **options)}
    assert not cleared & {users[0], users[-1]}


@settings(deadline=None, max_examples=40)
@given(prompts(), frees, options)
def test_what_is_protected_stays(
    standing: list[Standing], free: int, options: dict[str, Any]
) -> None:
    cleared = {one.index for one in planned(standing, free, **options)}
    by_role: dict[str, list[int]] = {"tool": [], "assistant": [], "user": []}
    for each in standing:
        by_role[each.role].append(each.index)
    keep = options["keep"]
    newest = by_role["tool"][-keep:] if keep else []
    assert not cleared & {*newest, *by_role["assistant"][-1:], *by_role["user"]}


@settings(deadline=None, max_examples=40)
@given(prompts(), frees, options)
def test_as_much_is_freed_as_was_asked_for(
    standing: list[Standing], free: int, options: dict[str, Any]
) -> None:
    """Or as much as can be; a marker more or less for each text."""
    wanted = min(free, clearable(standing, **options))
    freed = tokens(standing) - tokens(after(standing, planned(standing, free, **options)))
    texts = sum(len([*texts_at(e.sent), *arguments_at(e.sent)]) for e in standing)
    assert freed >= wanted - 30 * texts


@settings(deadline=None, max_examples=40)
@given(prompts(), frees, musts, options)
def test_notes_stay(
    standing: list[Standing], free: int, must: int, options: dict[str, Any]
) -> None:
    def noted(prompt: list[Standing]) -> list[int]:
        return [e.index for e in prompt if any(NOTE in text for text in texts_of(e.sent))]

    cleared = planned(standing, free, must=must, **options)
    assert noted(after(standing, cleared)) == noted(standing)


@settings(deadline=None, max_examples=40)
@given(prompts(), frees, musts, options)
def test_the_same_prompt_gives_the_same_plan(
    standing: list[Standing], free: int, must: int, options: dict[str, Any]
) -> None:
    assert planned(standing, free, must=must, **options) == planned(
        standing, free, must=must, **options
    )


@settings(deadline=None, max_examples=40)
@given(prompts(), options)
def test_clearing_comes_to_an_end(standing: list[Standing], options: dict[str, Any]) -> None:
    """Each further batch frees something, so that there is no loop of edits."""
    for _ in range(4):
        cleared = planned(standing, 10**6, must=10**6, **options)
        shorter = after(standing, cleared)
        assert not cleared or tokens(shorter) < tokens(standing)
        standing = shorter
    assert planned(standing, 10**6, must=10**6, **options) == []
