"""Is a wrong option of an engine told where it is given?"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from kvagent import DEFAULT_STAGES, Engine, Policy, Turn
from tests.wire import Wire, say

SECRET = "sk-this-is-a-key"


class Summarizer:
    """As users write one."""

    def __call__(self, request: dict[str, Any]) -> str:
        return "It was long."

    async def acall(self, request: dict[str, Any]) -> str:
        return self(request)


async def awaited(given: object) -> None:
    """What nobody would await."""


async def streamed(given: object) -> Any:
    yield given


def stage(turn: Turn) -> None:
    """Leaves the turn as it is."""


@pytest.mark.parametrize("name", ["on_event", "summarizer"])
@pytest.mark.parametrize(
    ("given", "what"),
    [
        (SECRET, "a value of type str"),
        (7, "a value of type int"),
        (False, "a value of type bool"),
        ({"url": SECRET}, "a value of type dict"),
        (Summarizer, "the class Summarizer itself"),
        (awaited, "a coroutine function"),
        (functools.partial(awaited), "a coroutine function"),
        (streamed, "a coroutine function"),
    ],
)
def test_what_cannot_be_called_is_no_option(name: str, given: Any, what: str) -> None:
    with pytest.raises(TypeError, match=rf"^kvagent: {name} is {what}") as error:
        Engine(**{name: given})
    assert "wanted is a " in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("clear", "stages is a value of type str"),
        (b"clear", "stages is a value of type bytes"),
        (3, "stages is a value of type int"),
        (stage, "stages is a value of type function"),
        (Summarizer, "stages is the class Summarizer itself"),
        (["clear"], r"stages\[0\] is a value of type str"),
        ([*DEFAULT_STAGES, None], r"stages\[6\] is a value of type NoneType"),
        ([stage, awaited], r"stages\[1\] is a coroutine function"),
        ([stage, Summarizer], r"stages\[1\] is the class Summarizer itself"),
        ({"clear": stage}, r"stages\[0\] is a value of type str"),
    ],
)
def test_stages_are_a_sequence_of_what_can_be_called(given: Any, what: str) -> None:
    with pytest.raises(TypeError, match=rf"^kvagent: {what}.*; wanted is a sequence of"):
        Engine(stages=given)


@pytest.mark.parametrize("given", ["safe", {"mode": "safe"}, {}, Policy])
def test_a_policy_is_one(given: Any) -> None:
    with pytest.raises(TypeError, match=r"^kvagent: policy is .*; wanted is a kvagent\.Policy$"):
        Engine(given)


def test_what_can_be_called_is_taken() -> None:
    events: list[Any] = []
    some: tuple[Any, ...] = ((), [stage], iter([stage, *DEFAULT_STAGES]), None)
    for summarizer in (Summarizer(), Summarizer().__call__, functools.partial(Summarizer()), None):
        for stages in some:
            engine = Engine(
                Policy(probe=False), on_event=events.append, stages=stages, summarizer=summarizer
            )
            events.clear()
            Wire(engine).send([say("user", "Hello.")], say("assistant", "Hello."))
            assert [type(event).__name__ for event in events] == ["TurnFinished"]
    assert Engine().stages == DEFAULT_STAGES
