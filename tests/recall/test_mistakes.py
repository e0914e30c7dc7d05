"""Is a model told what is wrong with its question, and understood where that can be?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvagent import Bypassed
from kvagent.recall import RECALL, part_of
from tests.recall.asking import FINAL, LONG, TOOLS, Model, asks, history, recalling, told
from tests.wire import call


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"handle": "r000000000000"}, "keeps no original under 'r000000000000'"),
        ({"handle": "the log"}, "give the handle as it stands in the text"),
        ({}, "give the handle as it stands in the text"),
        ({"handle": None}, "give the handle as it stands in the text"),
        ("[]", "give the arguments as an object"),
        ("", "the arguments are not JSON"),
        ('{"handle": "r00', "the arguments are not JSON"),
    ],
)
def test_a_mistake_is_told_the_model(arguments: Any, says: str) -> None:
    scripted = recalling()
    asked = call("ask-1", RECALL)
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    asked["tool_calls"][0]["function"]["arguments"] = written
    assert scripted.send(history(), Model(asked, FINAL), tools=TOOLS).reply == FINAL
    assert says in told(scripted)[0]
    assert not scripted.of(Bypassed)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"lines": "0-4"}, "lines count from 1"),
        ({"lines": "7-4"}, "the last is not before the first"),
        ({"lines": "the end"}, "write the first and the last line"),
        ({"lines": "5000-6000"}, "the text has 900 lines"),
        ({"query": "no such thing"}, "no line holds that"),
    ],
)
def test_what_it_does_not_have_is_told_the_model(part: dict[str, Any], says: str) -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(handle, **part), FINAL)
    assert scripted.send(history(), model, tools=TOOLS).reply == FINAL
    assert says in told(scripted)[0]


@pytest.mark.parametrize("written", ['recall("{}")', " {} ", "handle={}, all of it"])
def test_a_handle_however_it_is_written(written: str) -> None:
    scripted = recalling()
    model = Model(lambda handle: asks(written.format(handle), lines=5), FINAL)
    scripted.send(history(), model, tools=TOOLS)
    assert told(scripted) == [part_of(LONG, 5)]
