"""If anything inside kvagent fails, does the caller notice nothing of it?

The request goes out as it came, the answer comes back as the server gave it, one event and one log
record say why, and the next request is served as if nothing had happened.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import kvagent.engine
import kvagent.planner
import kvagent.settler
from kvagent import Bypassed, Engine, Event, Evict, Policy, Tokens, Turn, TurnFinished
from kvagent.chat import ChatReply, Doubt
from kvagent.flow import Answer, Call, adrive, drive
from kvagent.stages import DEFAULT_STAGES
from tests.wire import Message, Wire, call, compact, kept, result, say, tool

SECRET = "the launch code is 00000000"
CLOCK = say("system", "You are careful.\nCurrent time: 2026-11-30 12:00:00")
HISTORY = [
    say("user", SECRET),
    call("c1", content="I will look."),
    result("c1", "\n".join(f"line {number}: {SECRET}" for number in range(500))),
    say("assistant", "There."),
    say("user", "Thanks."),
]


class Broken(Exception):
    """What goes wrong in these tests."""


def fail(*args: Any, **rest: Any) -> Any:
    raise Broken("as told")


def body_of(end: int = 3, **more: Any) -> bytes:
    return compact({"messages": [CLOCK, *HISTORY[:end]], "model": "m", **more}).encode()


class Run:
    """An engine whose events are kept, and what goes through it."""

    def __init__(self, **arguments: Any) -> None:
        self.events: list[Event] = []
        policy = {"evict": Evict(trigger=Tokens(300), keep=200)} | arguments.pop("policy", {})
        arguments.setdefault("on_event", self.events.append)
        self.engine = Engine(Policy(probe=False, **policy), **arguments)

    def send(self, raw: bytes, reply: Message | None = None, answer: Answer | None = None) -> bytes:
        sent, settle = drive(self.engine.turn(raw), lambda call: (answer or Answer(200), call.body))
        settle(ChatReply((reply,) if reply else (), {}, complete=reply is not None), 0.1)
        return sent

    @property
    def bypassed(self) -> list[Bypassed]:
        return [event for event in self.events if isinstance(event, Bypassed)]


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


# --- requests that are none of kvagent's


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"messages":[]}',
        b'{"messages":"hello"}',
        b'{"messages":[1]}',
        b'{"messages":[{"content":"no role"}]}',
        b'{"messages":[{"role":"user","content":"a"}],"tools":1}',
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        b'\xff{"messages":[]}',
        b'{"prompt":"a completion"}',
    ],
)
def test_what_is_no_chat_request_passes(raw: bytes, caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    assert run.send(raw) == raw
    assert [event.error for event in run.bypassed] == [None]
    assert not errors(caplog), "it is not kvagent's fault, and nobody needs to hear of it"


def test_what_cannot_be_read_is_not_quoted(caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    with caplog.at_level(logging.INFO):
        run.send(json.dumps({"messages": [say("user", SECRET), SECRET]}).encode())
        run.send(f'{{"messages": [{SECRET}'.encode())
    assert len(run.bypassed) == 2
    assert SECRET not in caplog.text + repr(run.events)


def test_a_rewrite_says_why_it_cannot() -> None:
    with pytest.raises(Doubt, match="no list of messages"):
        Run().engine.rewrite(b"{}")


# --- stages


def breaks_role(turn: Turn) -> None:
    turn.tail[0].message = {**turn.tail[0].message, "role": "assistant"}


def breaks_call(turn: Turn) -> None:
    for fresh in turn.tail:
        if fresh.message.get("tool_calls"):
            fresh.message = {**fresh.message, "tool_calls": []}


def breaks_result(turn: Turn) -> None:
    turn.tail[-1].message = {**turn.tail[-1].message, "tool_call_id": "c2"}


def drops(turn: Turn) -> None:
    del turn.tail[1]


def doubles(turn: Turn) -> None:
    turn.tail.append(turn.tail[-1])


def swaps(turn: Turn) -> None:
    turn.tail.reverse()


def writes_no_json(turn: Turn) -> None:
    turn.tail[0].message = {**turn.tail[0].message, "content": object()}


def writes_no_message(turn: Turn) -> None:
    turn.tail[0].message = "hello"  # type: ignore[assignment]


def wants_a_note_nowhere(turn: Turn) -> None:
    turn.notes.append("a note")
    turn.tail[:] = [fresh for fresh in turn.tail if fresh.role == "assistant"]


@pytest.mark.parametrize(
    "stage",
    [
        fail,
        breaks_role,
        breaks_call,
        breaks_result,
        drops,
        doubles,
        swaps,
        writes_no_json,
        writes_no_message,
        wants_a_note_nowhere,
    ],
)
@pytest.mark.parametrize("mode", ["full", "observe"])
def test_a_stage_that_fails_or_breaks_something(
    stage: Callable[[Turn], None], mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(stages=[*DEFAULT_STAGES, stage], policy={"mode": mode})
    assert run.send(body_of(), HISTORY[3]) == body_of()
    assert len(run.bypassed) == 1
    assert not [event for event in run.events if isinstance(event, TurnFinished)]
    assert run.engine.ledger.size == 0, "what was not understood is not remembered"


def test_the_cause_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(stages=[fail])
    run.send(body_of())
    (record,) = errors(caplog)
    assert record.name == "kvagent"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], Broken)
    (event,) = run.bypassed
    assert isinstance(event.error, Broken)
    assert SECRET not in caplog.text + repr(event)


@pytest.mark.parametrize("part", ["kvagent.engine.Hinter.fields", "kvagent.engine.with_switches"])
def test_what_is_added_last_may_fail_too(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, fail)
    run = Run()
    assert run.send(body_of(), HISTORY[3]) == body_of()
    assert [type(event.error) for event in run.bypassed] == [Broken]
    assert run.engine.ledger.size == 0


def test_a_stage_that_fails_once_costs_one_request() -> None:
    failing = [False, True, False]
    run = Run(stages=[*DEFAULT_STAGES, lambda turn: fail() if failing.pop(0) else None])
    first = run.send(body_of(1), HISTORY[1])
    assert run.send(body_of(3), HISTORY[3]) == body_of(3)
    third = run.send(body_of(5))
    assert len(run.bypassed) == 1
    assert kept(json.loads(first), json.loads(third))


# --- what kvagent calls while it prepares


def test_counting_tokens_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvagent.planner, "count_tokens", fail)
    run = Run()
    assert run.send(body_of()) == body_of()
    assert isinstance(run.bypassed[0].error, Broken)


def test_shortening_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The text goes out whole; all else is done as ever."""
    monkeypatch.setattr(sys.modules["kvagent.stages.evict"], "shorten", fail)
    run = Run()
    sent = json.loads(run.send(body_of()))
    assert sent["messages"][3]["content"].startswith(HISTORY[2]["content"] + "\n\n")
    assert sent["messages"][0] != CLOCK
    assert not run.bypassed
    (record,) = errors(caplog)
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], Broken)


class BrokenStore:
    """A store that a user has written, and that never works."""

    durable = True

    def add(self, namespace: str, key: bytes, *values: bytes) -> None:
        fail()

    def get(self, namespace: str, key: bytes) -> tuple[bytes, ...]:
        raise Broken(f"cannot read {key!r}")

    def batch(self, namespace: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        raise Broken(f"cannot write {list(items)!r}")

    def close(self) -> None:
        fail()


def test_a_store_that_raises_is_gone_without(caplog: pytest.LogCaptureFixture) -> None:
    run, reference = Run(store=BrokenStore()), Run()
    for end in (1, 3, 5):
        reply = HISTORY[end] if end < 5 else None
        assert run.send(body_of(end), reply) == reference.send(body_of(end), reply)
    assert not run.bypassed
    assert len(errors(caplog)) == 1
    assert SECRET not in caplog.text
    sent = json.loads(run.send(body_of()))["messages"][-1]["content"]
    handle = sent.split("kept as ")[1].split("]")[0]
    assert run.engine.recall(handle) == HISTORY[2]["content"]
    run.engine.store.close()


# --- events


def test_whoever_listens_and_raises_is_not_heard(caplog: pytest.LogCaptureFixture) -> None:
    run, reference = Run(on_event=fail), Run()
    for end in (1, 3, 5):
        reply = HISTORY[end] if end < 5 else None
        assert run.send(body_of(end), reply) == reference.send(body_of(end), reply)
    assert run.send(b"{}") == b"{}"
    records = errors(caplog)
    assert len(records) == len(reference.events) + 1
    assert all("on_event raised" in record.message for record in records)


# --- answers


def test_an_answer_that_cannot_be_settled(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run()
    first = run.send(body_of(1), HISTORY[1])
    with monkeypatch.context() as patch:
        patch.setattr(kvagent.settler, "usage_of", fail)
        sent, settle = drive(run.engine.turn(body_of(3)), lambda call: (Answer(200), call.body))
        settle(ChatReply((HISTORY[3],), {"usage": {"prompt_tokens": 1}}, complete=True), 0.1)
    assert isinstance(run.bypassed[0].error, Broken)
    assert len(errors(caplog)) == 1
    third = run.send(body_of(5))
    assert kept(json.loads(first), json.loads(third))
    assert kept(json.loads(sent), json.loads(third))


def test_a_refusal_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kvagent.engine, "overflow_of", fail)
    run = Run()
    run.send(body_of(), answer=Answer(400, b'{"error":{"message":"too long"}}'))
    assert isinstance(run.bypassed[0].error, Broken)
    assert len(errors(caplog)) == 1


@pytest.mark.parametrize("error", [b"", b"\xff", b"[]", b"null", b'{"error":1}', b"<html>"])
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_a_refusal_is_no_turn(status: int, error: bytes) -> None:
    run = Run()
    run.send(body_of(), answer=Answer(status, error))
    assert run.engine.ledger.size == 0
    assert run.events == []


@pytest.mark.parametrize(
    "reply",
    [
        ChatReply(),
        ChatReply(({},), {}, complete=True),
        ChatReply(({"role": "assistant", "content": 7, "tool_calls": "x"},), {}, complete=True),
        ChatReply(({"role": "assistant"},), {"usage": "many", "timings": []}, complete=True),
        ChatReply((), {"usage": {"prompt_tokens": -1}, "model": 3}, error={"message": "cut"}),
        ChatReply((), {}, error="cut"),
    ],
)
def test_an_odd_answer_is_no_fault(reply: ChatReply, caplog: pytest.LogCaptureFixture) -> None:
    run = Run()
    sent, settle = drive(run.engine.turn(body_of(1)), lambda call: (Answer(200), call.body))
    settle(reply, None)
    after = run.send(body_of(3))
    assert kept(json.loads(sent), json.loads(after))
    assert not run.bypassed
    assert not errors(caplog)


def test_an_answer_that_is_never_settled_is_not_remembered() -> None:
    run = Run()
    drive(run.engine.turn(body_of()), lambda call: (Answer(200), call.body))
    assert run.engine.ledger.size == 0


def test_a_probe_that_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kvagent.engine, "probe", fail)
    engine = Engine()
    assert list(engine.probe("m")) == []
    assert not engine.to_probe
    assert engine.server is None
    assert len(errors(caplog)) == 1


# --- the way out


def test_an_error_on_the_way_out_is_the_callers() -> None:
    run = Run()
    with pytest.raises(Broken):
        drive(run.engine.turn(body_of()), fail)
    assert run.engine.ledger.size == 0
    assert run.events == []


async def test_an_error_on_the_asynchronous_way_out_is_the_callers() -> None:
    async def send(call: Call) -> tuple[Answer, None]:
        raise Broken

    run = Run()
    with pytest.raises(Broken):
        await adrive(run.engine.turn(body_of()), send)
    assert run.engine.ledger.size == 0


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_end_of_the_program_is_not_held_up(end: type[BaseException]) -> None:
    def stage(turn: Turn) -> None:
        raise end

    with pytest.raises(end):
        Run(stages=[stage]).send(body_of())


# --- odd but valid requests


@pytest.mark.parametrize(
    "messages",
    [
        [CLOCK],
        [CLOCK, CLOCK],
        [say("assistant", "I begin.")],
        [CLOCK, say("assistant", "I begin.")],
        [result("c9", "a result without its call")],
        [say("user", None)],
        [say("user", [])],
        [say("user", [{"type": "text"}])],
        [say("user", ["text"])],
        [say("user", 7)],
        [say("tool", {"a": 1}, tool_call_id="c1")],
        [say("assistant", "a", tool_calls=None)],
        [say("assistant", "a", tool_calls="x")],
        [say("assistant", "a", tool_calls=[1])],
        [say("assistant", "a", tool_calls=[{"id": 3, "function": "x"}])],
        [say("assistant", "a", tool_calls=[{"function": {"arguments": {"a": 1}}}])],
        [say("assistant", "a", function_call={"name": "f", "arguments": "[1"})],
        [say("weird", "a"), say("", "b")],
        [say("system", None), say("system", [{"type": "text", "text": "a"}, 7])],
        [say("user", "a"), say("system", "late"), say("user", "b")],
    ],
    ids=str,
)
def test_an_odd_request_is_served_twice_alike(
    messages: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the server takes it is for the server to say."""
    wire = Wire()
    first = wire.send(messages, say("assistant", "ok"), tools=[tool("read")])
    assert wire.send(messages, say("assistant", "ok"), tools=[tool("read")]) == first
    wire.send([*messages, say("assistant", "ok"), say("user", "on")], say("assistant", "ok"))
    assert [m["role"] for m in first] == [m["role"] for m in messages]
    assert not [event for event in wire.of(Bypassed) if event.error is not None]
    assert not errors(caplog)
