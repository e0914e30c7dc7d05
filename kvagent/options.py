"""Can what a user gave to an engine be called as it will be?

Told at once, where the engine is made: a turn could only log it, again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import TypeVar

from kvagent.policy import Policy
from kvagent.stages import DEFAULT_STAGES, Stage

F = TypeVar("F")

_WANTED = {
    "policy": "a kvagent.Policy",
    "on_event": "a function that takes an event",
    "stages": "a sequence of functions that take a kvagent.Turn, such as "
    "(*kvagent.DEFAULT_STAGES, mine)",
    "summarizer": "a callable that takes a chat request and returns a text, such as "
    "kvagent_openai.Summarizer(client); to be awaited, it has a method acall as well",
}


def policy_of(given: object) -> Policy:
    """The policy, by default the default one; ``TypeError`` where it is none."""
    policy = Policy() if given is None else given
    if not isinstance(policy, Policy):
        raise _wrong("policy", "policy", given)
    return policy


def stages_of(given: object) -> tuple[Stage, ...]:
    """The stages, by default those of kvagent; ``TypeError`` where one cannot be called."""
    if given is None:
        return DEFAULT_STAGES
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _wrong("stages", "stages", given)
    stages: tuple[Stage, ...] = tuple(given)
    for at, stage in enumerate(stages):
        if not _can_be_called(stage):
            raise _wrong("stages", f"stages[{at}]", stage)
    return stages


def callable_of(name: str, given: F) -> F:
    """The option of this name, which may be None; ``TypeError`` where it cannot be called."""
    if given is not None and not _can_be_called(given):
        raise _wrong(name, name, given)
    return given


def _can_be_called(given: object) -> bool:
    return (
        callable(given)
        and not isinstance(given, type)  # to call a class is to make an object, and no more
        and not iscoroutinefunction(given)
        and not isasyncgenfunction(given)
    )


def _wrong(name: str, place: str, given: object) -> TypeError:
    """The error; it says nothing of a value, which may be a key or a text of a prompt."""
    if isinstance(given, type):
        what = f"the class {given.__name__} itself"
    elif iscoroutinefunction(given) or isasyncgenfunction(given):
        what = "a coroutine function, which nobody would await"
    else:
        what = f"a value of type {type(given).__name__}"
    return TypeError(f"kvagent: {place} is {what}; wanted is {_WANTED[name]}")
