"""Is a body that goes on from another one known, and what it adds read and nothing else?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent import Bypassed, Engine, Evict, Policy, Tokens, Turn, session
from kvagent.chat import ChatRequest
from kvagent.head import HeadReader
from kvagent.ledger import Ledger
from kvagent.resume import Resumable, Resumables, split
from kvagent.stores import MemoryStore
from tests.wire import Message, Wire, call, compact, first_call, kept, result, say, tool

SCOPE = ("", None)
LEDGER = Ledger(MemoryStore(), 1 << 20)


def record(came: bytes, rest: bytes = b'],"model":"m"}', scope: Any = SCOPE) -> Resumable:
    raw = b'{"messages":[{"role":"user","content":"a"}],"model":"m"}'
    view = HeadReader((), frozenset()).view(ChatRequest.parse(raw))
    return Resumable(
        scope=scope,
        came=came,
        rest=rest,
        went=came,
        went_rest=rest,
        body={"model": "m"},
        view=view,
        head=view.as_sent(),
        tip=LEDGER.tree("", "m").root,
        consumed=[0],
        head_size=0,
    )


class Parses:
    """Counts the requests that are read whole."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, raw: bytes) -> ChatRequest:
        self.count += 1
        return parse(raw)


parse = ChatRequest.parse


@pytest.fixture
def parses() -> Iterator[Parses]:
    counter = Parses()
    with patch.object(ChatRequest, "parse", counter):
        yield counter


# --- bytes


def test_what_a_body_adds_is_the_part_between() -> None:
    before = record(b'{"messages":[{"a":1}')
    assert before.added_by(b'{"messages":[{"a":1},{"b":2},{"c":3}],"model":"m"}') == (
        b'[{"b":2},{"c":3}]'
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"messages":[{"a":1}],"model":"m"}',  # nothing added
        b'{"messages":[{"a":1},],"model":"m"}',  # no JSON
        b'{"messages":[{"a":2},{"b":2}],"model":"m"}',
        b'{"messages":[{"a":1},{"b":2}],"model":"n"}',
        b'{"messages":[{"a":1},{"b":2}],"model":"m","n":2}',
        b'{"messages":[{"a":1}{"b":2}],"model":"m"}',
        b'{"messages":[{"a":1}',
    ],
)
def test_a_body_that_does_not_go_on_adds_nothing(raw: bytes) -> None:
    assert record(b'{"messages":[{"a":1}').added_by(raw) is None


def test_the_longest_body_is_found() -> None:
    kept_bodies = Resumables(1 << 20)
    short, long = record(b'{"messages":[1'), record(b'{"messages":[1,2')
    for body in (long, short):
        kept_bodies.keep(body, None)
    found = kept_bodies.find(b'{"messages":[1,2,3],"model":"m"}', SCOPE)
    assert found == (long, b"[3]")
    assert kept_bodies.find(b'{"messages":[1,4],"model":"m"}', SCOPE) == (short, b"[4]")


@pytest.mark.parametrize("scope", [("other", None), ("", "a session")])
def test_a_body_of_another_scope_is_not_found(scope: Any) -> None:
    kept_bodies = Resumables(1 << 20)
    kept_bodies.keep(record(b'{"messages":[1', scope=scope), None)
    assert kept_bodies.find(b'{"messages":[1,2],"model":"m"}', SCOPE) is None


def test_a_body_that_was_continued_is_not_kept() -> None:
    kept_bodies = Resumables(1 << 20)
    short, long = record(b'{"messages":[1'), record(b'{"messages":[1,2')
    kept_bodies.keep(short, None)
    kept_bodies.keep(long, instead_of=short)
    assert kept_bodies.find(b'{"messages":[1,4],"model":"m"}', SCOPE) is None


@given(st.lists(st.integers(1, 400), max_size=300))
@settings(derandomize=True, max_examples=25)
def test_no_more_is_kept_than_there_is_room_for(sizes: list[int]) -> None:
    kept_bodies = Resumables(10_000)
    before: Resumable | None = None
    for number, size in enumerate(sizes):
        body = record(b"x" * size)
        kept_bodies.keep(body, before if number % 3 == 0 else None)
        before = body
        records = kept_bodies._records.values()
        assert kept_bodies._size == sum(len(r.came) + len(r.went) for r in records) <= 10_000
        assert len(records) <= 128


def test_a_body_larger_than_the_room_is_not_kept() -> None:
    kept_bodies = Resumables(100)
    kept_bodies.keep(record(b"x" * 200), None)
    assert kept_bodies._size == 0


def test_where_the_messages_end() -> None:
    raw = b'{"model":"m","messages":[{"a":1},{"b":2}],"n":1}'
    end = split(raw, [b'{"a":1}', b'{"b":2}'])
    assert end is not None
    assert raw[:end].endswith(b'{"b":2}')
    assert raw[end:] == b'],"n":1}'


@pytest.mark.parametrize(
    "raw",
    [b'{"messages": [{"a":1}]}', b'{"messages":[{"a": 1}]}', b'{"messages":[{"a":1},2]}', b"{}"],
)
def test_messages_written_otherwise_have_no_known_end(raw: bytes) -> None:
    assert split(raw, [b'{"a":1}']) is None


# --- through the engine

SYSTEM = say("system", "You are careful.\nCurrent time: 2026-11-30 12:00:00")
HISTORY = [
    say("user", "What is in a.py?"),
    call("c1", content="I will look."),
    result("c1", "x = 1"),
    say("assistant", "An x."),
    say("user", "And in b.py?"),
    say("assistant", "Nothing."),
    say("user", "Thanks."),
]


def test_a_conversation_is_read_whole_once(parses: Parses) -> None:
    wire = Wire()
    for end in (1, 3, 5, 7):
        reply = HISTORY[end] if end < len(HISTORY) else None
        wire.send([SYSTEM, *HISTORY[:end]], reply, tools=[tool("read", path={})])
    assert parses.count == 1
    assert all(kept(*pair) for pair in zip(wire.bodies, wire.bodies[1:], strict=False))


def test_the_head_of_an_earlier_conversation_serves_a_later_one(parses: Parses) -> None:
    """Two that begin with the same words have their head in common, and each goes on quickly."""
    wire = Wire()
    for _ in range(2):
        wire.send([SYSTEM, HISTORY[0]], HISTORY[1])
    parses.count = 0
    wire.send([SYSTEM, *HISTORY[:3]], HISTORY[3])
    wire.send([SYSTEM, *HISTORY[:5]], HISTORY[5])
    assert parses.count == 0


def test_stages_run_once_a_request() -> None:
    turns: list[Turn] = []
    wire = Wire(Engine(Policy(probe=False), stages=[turns.append]))
    for end in (1, 3, 5):
        wire.send([SYSTEM, *HISTORY[:end]], HISTORY[end])
    assert [len(turn.tail) for turn in turns] == [1, 2, 2]


def test_a_stage_sees_all_messages_of_a_resumed_body() -> None:
    seen: list[int] = []
    wire = Wire(Engine(Policy(probe=False), stages=[lambda turn: seen.append(len(turn.messages))]))
    for end in (1, 3, 5):
        wire.send([SYSTEM, *HISTORY[:end]], HISTORY[end])
    assert seen == [2, 4, 6]


def test_a_long_result_in_a_resumed_body_is_shortened() -> None:
    wire = Wire(evict=Evict(trigger=Tokens(300), keep=200))
    wire.send([SYSTEM, HISTORY[0]], HISTORY[1])
    long = "\n".join(f"line {number}" for number in range(2_000))
    history = [SYSTEM, *HISTORY[:2], result("c1", long)]
    second = wire.send(history, HISTORY[3])
    assert len(second[-1]["content"]) < 2_000
    third = wire.send([*history, *HISTORY[3:5]])
    assert third[: len(second)] == second


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [tool("read", path={})]},
        {"stop": ["a"]},
        {"stop": ["a"], "metadata": {"list": [{"role": "user", "content": "b"}]}},
    ],
)
def test_keys_that_come_in_between_are_no_messages(more: dict[str, Any]) -> None:
    """The last key ends in a list as the messages do, so that the ends of both bodies agree."""
    events: list[Any] = []
    engine = Engine(Policy(probe=False), on_event=events.append)
    first = {"messages": [SYSTEM, *HISTORY[:1]]}
    second = {"messages": [SYSTEM, *HISTORY[:3]], **more}
    engine.rewrite(compact(first).encode())
    out = json.loads(engine.rewrite(compact(second).encode()))
    assert {key: value for key, value in out.items() if key != "messages"} == more
    assert len(out["messages"]) == 4
    assert not [event for event in events if isinstance(event, Bypassed)]


@pytest.mark.parametrize(
    "number", ["36893488147419103232", "1.10", "1E5", "0.1000000000000000055511151231257827"]
)
def test_numbers_in_an_added_message_stay_as_they_are(number: str) -> None:
    wire = Wire()
    wire.send([SYSTEM, HISTORY[0]], HISTORY[1])
    body = compact({"messages": [SYSTEM, *HISTORY[:3]], "model": "m"})
    body = body.replace('"role":"tool"', f'"at":{number},"role":"tool"')
    flow = wire.engine.turn(body.encode())
    sent = first_call(flow).body.decode()
    flow.close()
    assert json.loads(sent, parse_int=str, parse_float=str)["messages"][-1]["at"] in (
        number,
        str(float(number)),
    )
    if number.isdigit():
        assert f'"at":{number}' in sent


@pytest.mark.parametrize(
    "added",
    [
        '{"role":"user","content":"b"} ',
        ' {"role":"user","content":"b"}',
        '{"content":"\\u0062","role":"user"}',
    ],
)
def test_a_message_added_in_another_style_is_understood(added: str) -> None:
    wire = Wire()
    sent = wire.send([SYSTEM, HISTORY[0]])
    body = compact({"messages": [SYSTEM, HISTORY[0], 0], "model": "m"}).replace(",0]", f",{added}]")
    out = json.loads(wire.engine.rewrite(body.encode()))
    assert out["messages"][:2] == sent
    assert json.dumps(out["messages"][2], sort_keys=True) == '{"content": "b", "role": "user"}'


@pytest.mark.parametrize("added", ["1", "[]", '{"content":"b"}', '{"role":1}', "}{", '"\\ud800"'])
def test_a_body_that_adds_no_message_goes_out_as_it_came(added: str) -> None:
    events: list[Any] = []
    engine = Engine(Policy(probe=False), on_event=events.append)
    wire = Wire(engine)
    wire.send([SYSTEM, HISTORY[0]])
    body = compact({"messages": [SYSTEM, HISTORY[0], 0], "model": "m"})
    raw = body.replace(",0]", f",{added}]").encode()
    call = first_call(engine.turn(raw))
    assert (call.body, call.changed) == (raw, False)
    assert isinstance(events[-1], Bypassed)


def test_bodies_are_resumed_within_their_session_only() -> None:
    wire = Wire()
    first = [say("system", "Ticket 11111111-1111-4111-8111-111111111111"), HISTORY[0]]
    with session("one"):
        wire.send(first, HISTORY[1])
    with session("two"):
        wire.send([*first, *HISTORY[1:3]])
    assert len(wire.engine._planner.resumables._records) == 2


def test_a_reply_to_another_form_of_the_request_is_no_sequel() -> None:
    """Two tries with two clocks were answered; the history tells which of them the agent took."""

    def head(second: int) -> Message:
        return say("system", f"You are careful.\nCurrent time: 12:00:0{second}")

    wire = Wire()
    first = wire.send([head(1), HISTORY[0]], HISTORY[1])
    wire.send([head(2), HISTORY[0]], call("c2", content="Let me see."))
    third = wire.send([head(2), *HISTORY[:3]])
    assert third[:2] == first
