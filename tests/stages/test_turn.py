"""Can a stage of the user's own change what is new, and only that?"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kvagent import DEFAULT_STAGES, Bypassed, Edit, Edited, Engine, Policy, Stage, Turn
from kvagent.stages import clear, compact, echo, evict, pin_head, squeeze
from tests.wire import Message, Wire, call, kept, result, say

HISTORY = [
    say("system", "You help."),
    say("user", "Look."),
    call("call-1"),
    result("call-1", "shout"),
]


def wire(*stages: Stage, **policy: Any) -> Wire:
    new = Wire()
    new.engine = Engine(Policy(probe=False, **policy), on_event=new.events.append, stages=stages)
    return new


def louder(turn: Turn) -> None:
    """Results in capitals."""
    for fresh in turn.tail:
        if fresh.role == "tool":
            fresh.message = {**fresh.message, "content": fresh.message["content"].upper()}
            turn.edits.append(Edit("louder", "was too quiet", fresh.index, detail="up"))


def test_the_default_stages_come_in_the_order_of_the_design() -> None:
    assert (pin_head, echo, evict, clear, compact, squeeze) == DEFAULT_STAGES


def test_a_stage_of_ones_own_changes_the_tail_and_is_replayed() -> None:
    used = wire(*DEFAULT_STAGES, louder)
    used.send(HISTORY, say("assistant", "I see."))
    sent = used.send([*HISTORY, say("assistant", "I see."), say("user", "And?")])
    assert sent[3]["content"] == "SHOUT"
    assert kept(used.bodies[0], used.bodies[1])
    (edit,) = used.of(Edited)
    assert (edit.stage, edit.cause, edit.index, edit.detail) == ("louder", "was too quiet", 3, "up")


@pytest.mark.parametrize("mode", ["safe", "observe"])
def test_a_stage_of_ones_own_changes_nothing_in_the_careful_modes(mode: str) -> None:
    used = wire(louder, mode=mode)
    assert used.send(HISTORY) == HISTORY
    assert [edit.applied for edit in used.of(Edited)] == ([] if mode == "safe" else [False])


def test_a_stage_sees_only_what_is_new() -> None:
    seen: list[tuple[int, list[int]]] = []

    def looking(turn: Turn) -> None:
        seen.append((len(turn.messages), [fresh.index for fresh in turn.tail]))

    used = wire(looking)
    used.send(HISTORY[:2], HISTORY[2])
    used.send(HISTORY, say("assistant", "I see."))
    used.send([*HISTORY, say("assistant", "I see."), say("user", "And?")])
    assert seen == [(2, [1]), (4, [2, 3]), (6, [4, 5])]


def change(**keys: Any) -> Stage:
    def stage(turn: Turn) -> None:
        for fresh in turn.tail:
            fresh.message = {**fresh.message, **keys}

    return stage


def drop_calls(turn: Turn) -> None:
    for fresh in turn.tail:
        fresh.message = {k: v for k, v in fresh.message.items() if k != "tool_calls"}


@pytest.mark.parametrize(
    ("stage", "reason"),
    [
        (change(role="user"), "a stage changed role or tool_call_id of message 2"),
        (change(tool_call_id="call-2"), "a stage changed role or tool_call_id of message 1"),
        (change(tool_calls=[]), "a stage changed the tool calls of message 2"),
        (change(tool_calls=[{"id": "x"}]), "a stage changed the tool calls of message 1"),
        (drop_calls, "a stage changed the tool calls of message 2"),
    ],
)
def test_calls_and_results_cannot_be_parted(
    stage: Stage, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    used = wire(stage)
    with caplog.at_level(logging.ERROR, "kvagent"):
        assert used.send(HISTORY) == HISTORY
    assert [event.reason for event in used.of(Bypassed)] == [reason]
    assert not caplog.records  # a doubt, not an error


def test_what_a_stage_leaves_alone_goes_out_as_it_came() -> None:
    odd: Message = {"content": "a", "role": "user", "extra": {"b": [1.0, None]}}
    used = wire(change())
    sent = used.send([odd])
    assert list(sent[0]) == ["content", "role", "extra"]


def test_the_note_bearer_is_the_newest_user_or_tool_message() -> None:
    bearers: list[int | None] = []

    def looking(turn: Turn) -> None:
        bearers.append(turn.note_bearer.index if turn.note_bearer else None)

    used = wire(looking)
    for messages in (HISTORY, [*HISTORY, say("assistant", "Well,")], HISTORY[:1]):
        used.send(messages, settle=False)
    assert bearers == [3, 3, None]
