"""Is the simulation of llama.cpp's slots right about what a real server reported, and would it be noticed if not?

Each mutant breaks one rule. That none survives says that the recording tells every rule from its opposite.
"""

from __future__ import annotations

import functools
import importlib
import sys
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvagent.prefixcache import slots
from tests.prefixcache.replay import Server, read

MODULES = ("hit", "seen", "cells", "memory", "checkpoints", "hostcache", "slots")


@functools.cache
def recorded() -> list[Server]:
    return read()


def wrong(server: Server, simulation: types.ModuleType = slots) -> list[str]:
    """The first request that is simulated otherwise than it was reported, in words."""
    cache = server.setup.cache([-1, -2], simulation)
    for number, (request, prompt, generated) in enumerate(server.sequences()):
        try:
            running = cache.begin(prompt, **request.options)
        except simulation.PromptTooLong:
            predicted = None
        else:
            predicted = running.hit.cached_tokens
            running.finish(generated)
        if predicted != request.reported:
            return [f"request {number}: {predicted} predicted, {request.reported} reported"]
    return []


def test_much_was_recorded() -> None:
    assert sum(len(server.requests) for server in recorded()) >= 600


@pytest.mark.parametrize("number", range(len(read())))
def test_it_is_simulated_as_it_was(number: int) -> None:
    assert wrong(recorded()[number]) == []


@dataclass(frozen=True, slots=True)
class Mutant:
    """A rule, and a place in a module's text where it is broken."""

    rule: str
    module: str
    old: str
    new: str

    def load(self) -> types.ModuleType:
        """``slots`` with the changed text in it or below it."""
        name = "mutant"
        package = types.ModuleType(name)
        package.__path__ = []
        loaded: dict[str, types.ModuleType] = {name: package}
        try:
            sys.modules[name] = package
            for module in MODULES:
                source = importlib.import_module(f"kvagent.prefixcache.{module}")
                assert source.__file__
                text = Path(source.__file__).read_text(encoding="utf-8")
                if module == self.module:
                    assert text.count(self.old) == 1, "the text is there once"
                    text = text.replace(self.old, self.new)
                text = text.replace("from kvagent.prefixcache.", f"from {name}.")
                new = types.ModuleType(f"{name}.{module}")
                sys.modules[new.__name__] = loaded[new.__name__] = new
                exec(compile(text, f"{module} mutated", "exec"), new.__dict__)
        finally:
            for name in loaded:
                del sys.modules[name]
        return loaded["mutant.slots"]


def caught(mutant: Mutant) -> bool:
    simulation: Any = mutant.load()
    for server in recorded():
        try:
            if wrong(server, simulation):
                return True
        except (AttributeError, IndexError, KeyError, ValueError):
            return True  # it does not even run
    return False


MUTANTS = [
    Mutant(module=module, **mutant)
    for module, mutants in tomllib.loads(
        Path(__file__).with_name("slot_mutants.toml").read_text()
    ).items()
    for mutant in mutants
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_a_broken_rule_is_noticed(mutant: Mutant) -> None:
    assert caught(mutant)
