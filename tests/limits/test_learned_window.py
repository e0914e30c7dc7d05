"""Which window is believed after a refusal, by which model and tokenizer?"""

from __future__ import annotations

import json

import pytest

from kvagent import Policy, TurnFinished
from tests.limits.windows import GOOD, HISTORY, SIZE, TURNS, Window, history
from tests.scripted import Scripted, Served, refused, tokens_of
from tests.wire import say


def test_the_window_is_learned_for_later_turns_and_other_conversations() -> None:
    scripted, server = Scripted(window=4 * SIZE), Window(SIZE // 2)
    assert scripted.send(HISTORY, server).reply == GOOD
    assert server.refusals == 1
    more = [*HISTORY, GOOD, say("user", "Go on.")]
    assert scripted.send(more, server).reply == GOOD
    others = history(TURNS)
    others[1] = say("user", "Another task: count all values.")
    assert scripted.send(others, server).reply == GOOD
    assert server.refusals == 1
    assert all(event.window == SIZE // 2 for event in scripted.of(TurnFinished))


def test_another_model_has_a_window_of_its_own() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Window(SIZE // 2))
    before = len(scripted.bodies)
    scripted.send(HISTORY, Window(SIZE * 2), model="other")
    assert scripted.bodies[before:] == [{"messages": HISTORY, "model": "other"}]


@pytest.mark.parametrize("scale", [0.8, 1.3, 2.0])
def test_a_tokenizer_that_counts_otherwise(scale: float) -> None:
    scripted, server = Scripted(), Window(int(SIZE * scale) // 2, scale)
    assert scripted.send(HISTORY, server).reply == GOOD
    assert server.refusals == 1


def test_a_wording_without_numbers_teaches_no_window() -> None:
    scripted = Scripted()
    answers = [refused("Context size has been exceeded.", 500), Served(GOOD)]
    assert scripted.send(HISTORY, lambda _: answers.pop(0)).reply == GOOD
    assert tokens_of(scripted.bodies[1]) <= 0.75 * SIZE
    others = history()
    others[1] = say("user", "Another task.")
    scripted.send(others)
    assert scripted.last == others


def test_a_server_that_takes_more_than_was_believed_has_a_larger_window() -> None:
    scripted = Scripted(clear=None, compact=None, evict=None)
    scripted.send(HISTORY, Window(SIZE // 2))
    scripted.send(HISTORY, Window(SIZE * 2))
    scripted.send([*HISTORY, GOOD, say("user", "And?")], Window(SIZE * 2))
    assert scripted.of(TurnFinished)[-1].window is None


def test_the_policy_decides_where_it_is_stricter() -> None:
    scripted, server = Scripted(window=SIZE // 3), Window(SIZE // 2)
    scripted.send(HISTORY, server)
    assert server.refusals == 0
    assert tokens_of(scripted.bodies[0]) <= Policy().room(SIZE // 3)
    assert json.loads(scripted.raws[0])["model"] == "m"
