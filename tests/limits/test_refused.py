"""Is a refused request sent once more, and smaller, and does any other answer reach the caller?"""

from __future__ import annotations

import pytest

from kvagent import Edited, Hints, Overflowed, TurnFinished
from kvagent.backends import Server
from tests.backends.test_overflow import REFUSALS, Refusal
from tests.limits.windows import GOOD, HISTORY, SIZE, Window, history, text
from tests.scripted import Scripted, Served, refused, tokens_of
from tests.wire import compact, kept, say

# Of the wordings that name what the reply takes, and of the largest windows, others tell as much.
TOLD = [each for each in REFUSALS if not each.output and (each.window or 0) < 50_000]


@pytest.mark.parametrize("refusal", TOLD, ids=lambda refusal: refusal.wording)
def test_every_wording_is_answered_by_a_smaller_request(refusal: Refusal) -> None:
    scripted = Scripted()
    answers = [refused(refusal.message), Served(GOOD)]
    small = refusal.window is not None and refusal.window < 1_000
    turns = max(24, (refusal.window or 0) // 350)
    lines = 4 if small else 24
    served = scripted.send(history(turns, lines), lambda _: answers.pop(0))
    assert served.reply == GOOD
    first, second = scripted.raws
    assert len(second) < len(first)
    (told,) = scripted.of(Overflowed)
    assert (told.status, told.prompt_tokens, told.at_least, told.window, told.silent) == (
        400,
        refusal.prompt,
        refusal.at_least,
        refusal.window,
        False,
    )
    assert {edit.stage for edit in scripted.of(Edited)} & {"clear", "compact", "evict"}


def test_the_prefix_stays_after_a_refusal() -> None:
    scripted, server = Scripted(), Window(SIZE // 2)
    messages = list(HISTORY)
    for question in ("And?", "So?", "Well?"):
        assert scripted.send(messages, server).reply == GOOD
        messages += [GOOD, say("user", question)]
    assert server.refusals == 1
    assert all(kept(a, b) for a, b in zip(scripted.bodies[1:], scripted.bodies[2:], strict=False))


def test_a_second_refusal_reaches_the_caller_as_it_is_and_teaches_too() -> None:
    scripted = Scripted()
    served = scripted.send(HISTORY, lambda _: refused("Context size has been exceeded.", 500))
    assert (served.status, served.error) == (
        500,
        refused("Context size has been exceeded.", 500).error,
    )
    assert len(scripted.raws) == 2
    assert [event.status for event in scripted.of(Overflowed)] == [500, 500]
    scripted.send(HISTORY)  # as the SDK does after a 500
    assert len(scripted.raws) == 3
    assert len(scripted.raws[2]) < len(scripted.raws[1]) < len(scripted.raws[0])


def test_nothing_that_is_refused_is_kept_or_told_as_done() -> None:
    scripted = Scripted()
    served = scripted.send(HISTORY, lambda _: refused("Context size has been exceeded.", 500))
    assert served.status == 500
    assert scripted.engine.ledger.size == 0
    assert not scripted.of(Edited)
    assert not scripted.of(TurnFinished)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.wording)
@pytest.mark.parametrize("hints", [Hints(), Hints(id_slot="conversation", cache_prompt=True)])
def test_what_cannot_be_smaller_is_not_sent_again(refusal: Refusal, hints: Hints) -> None:
    scripted = Scripted(hints=hints)
    scripted.engine.server = Server(kind="llama.cpp", slots=4)
    served = scripted.send([say("user", "Hello there!")], lambda _: refused(refusal.message))
    assert served.error == refused(refusal.message).error
    assert len(scripted.raws) == 1
    assert len(scripted.of(Overflowed)) == 1


@pytest.mark.parametrize("mode", ["observe", "safe"])
def test_only_full_mode_sends_a_second_request(mode: str) -> None:
    scripted = Scripted(mode=mode)
    served = scripted.send(HISTORY, Window(SIZE // 2))
    assert served.status == 400
    assert scripted.bodies == [{"messages": HISTORY, "model": "m"}]
    assert len(scripted.of(Overflowed)) == 1


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
def test_other_errors_are_let_through(status: int) -> None:
    scripted = Scripted()
    error = refused("The server is on fire.", status)
    assert scripted.send(HISTORY, error).error == error.error
    assert len(scripted.raws) == 1
    assert not scripted.of(Overflowed)


def test_a_refusal_that_cannot_be_understood_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("broken")

    scripted = Scripted()
    monkeypatch.setattr("kvagent.engine.overflow_of", fail)
    assert scripted.send(HISTORY, Window(SIZE // 2)).status == 400
    assert len(scripted.raws) == 1


def test_what_the_user_pasted_goes_when_nothing_else_is_left() -> None:
    """But neither the first nor the newest user message."""
    long = "\n".join(text(n) for n in range(8))
    messages = [
        say("system", "You help."),
        say("user", "First."),
        say("assistant", "Yes?"),
        say("user", long),
        say("assistant", "I see."),
        say("user", "And now?"),
    ]
    server = Window(tokens_of({"messages": messages}) * 2 // 3)
    scripted = Scripted()
    assert scripted.send(messages, server).reply == GOOD
    assert scripted.last[1]["content"].startswith("First.")
    assert scripted.last[-1] == messages[-1]


def test_a_stream_that_breaks_off_is_smaller_when_it_is_tried_again() -> None:
    scripted = Scripted()
    error = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}
    scripted.send(HISTORY, Served(say("assistant", "The"), stream_error=error), stream=True)
    (told,) = scripted.of(Overflowed)
    assert (told.status, told.silent) == (200, False)
    scripted.send(HISTORY, GOOD, stream=True)
    first, second = scripted.bodies
    assert tokens_of(second) <= 0.75 * tokens_of(first)
    scripted.send([*HISTORY, GOOD, say("user", "And?")], stream=True)
    assert kept(second, scripted.bodies[-1])


def test_another_error_within_a_stream_teaches_nothing() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Served(say("assistant", "The"), stream_error={"message": "gone"}))
    scripted.send(HISTORY)
    assert scripted.bodies[0] == scripted.bodies[1]
    assert not scripted.of(Overflowed)


def test_events_hold_no_prompt() -> None:
    scripted = Scripted()
    scripted.send(HISTORY, Window(SIZE // 2))
    assert "value_1_1" not in compact([repr(event) for event in scripted.events])
