"""Does a head go out as it was first sent, whatever form it comes in?"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kvagent import Bypassed, Edited, PrefixBroken
from tests.stages.pin_head.heads import LONG, chat, head_of, holds, system, user
from tests.wire import Message, Wire, say


def test_the_same_head_goes_out_as_it_came() -> None:
    wire = chat([[system("Be brief. 日本 🙂 é e\u0301")]] * 3)
    assert holds(wire)
    assert wire.of(Edited) == []
    assert not wire.of(PrefixBroken)


@pytest.mark.parametrize(
    "other",
    [
        [{"type": "text", "text": "Be brief."}],
        [{"type": "text", "text": "Be brief.", "cache_control": None}],
    ],
)
def test_the_first_form_of_the_same_text_stays(other: Any) -> None:
    wire = chat([[system("Be brief.")], [system(other)], [system("Be brief.")]])
    assert holds(wire)
    assert [event.cause for event in wire.of(Edited)] == ["system_reserialised"]


def test_null_and_absent_keys_are_the_same_head() -> None:
    wire = chat([[system("Be brief.")], [{"content": "Be brief.", "name": None, "role": "system"}]])
    assert holds(wire)


@pytest.mark.parametrize(
    "head",
    [
        [],
        [say("developer", "Be brief.")],
        [system("One."), say("developer", "Two."), system("Three.")],
        [system([])],
        [system("")],
        [system(None)],
        [system([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}])],
    ],
    ids=["none", "developer", "several", "no parts", "empty", "null", "parts"],
)
def test_heads_of_any_kind_stay(head: list[Message]) -> None:
    wire = chat([head] * 3)
    assert holds(wire)
    assert wire.bodies[0]["messages"][: len(head)] == head
    assert not wire.of(Bypassed)


def test_a_request_of_a_system_message_alone_is_fine(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()
    with caplog.at_level(logging.ERROR, "kvagent"):
        for _ in range(2):
            wire.send([system("Today is Monday. Say something.")], say("assistant", LONG))
        more = [system("Today is Monday. Say something."), say("assistant", LONG), user("More.")]
        wire.send(more, say("assistant", "ok"))
    assert not caplog.records
    assert not wire.of(Bypassed)
    assert head_of(wire, 0) == "Today is Monday. Say something."  # nothing could bear a note
