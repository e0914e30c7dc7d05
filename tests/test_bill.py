"""Does the bill add up what the server counted, and kvagent's own calls with it?"""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from kvagent import Edited, Evict, Recall, Tokens
from kvagent.backends import Usage
from kvagent.bill import Account, Bill, saved_tokens
from kvagent.compaction import SummaryReply
from kvagent.engine import Engine
from kvagent.policy import Compact, Policy
from kvagent.tokens import count_tokens
from tests.recall.asking import FINAL, TOOLS, asks, handle_in, history
from tests.scripted import Scripted, Served, refused
from tests.wire import Message, call, result, say

LONG = "\n".join(f"{n}: {n * 7919 % 100_003}" for n in range(1_500))


def usage(prompt: int, cached: int | None, completion: int = 5) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, **details}


def bill(scripted: Scripted) -> Bill:
    return scripted.engine.meter.bill()


def test_nothing_was_sent() -> None:
    empty = Bill(0, 0, 0, 0, 0, 0, 0)
    assert bill(Scripted()) == empty
    assert empty.saved_tokens == 0


def test_what_the_server_computed_is_summed() -> None:
    scripted = Scripted()
    messages: list[Message] = []
    for prompt, cached in ((100, 0), (250, 100), (400, 240)):
        messages += [say("user", f"question {prompt}")]
        scripted.send(messages, Served(FINAL, usage(prompt, cached)))
        messages += [FINAL]
    told = bill(scripted)
    assert told.requests == 3
    assert told.prefilled_tokens == 100 + 150 + 160
    assert (told.own_prefilled_tokens, told.own_completion_tokens) == (0, 0)
    assert told.without_tokens == told.prefilled_tokens, "nothing was changed"
    assert (told.freed_tokens, told.edit_cost_tokens, told.saved_tokens) == (0, 0, 0)


def test_without_the_servers_counts_it_is_estimated() -> None:
    scripted = Scripted()
    first, second = say("user", "a word " * 300), say("user", "another " * 200)
    scripted.send([first], Served(FINAL))
    scripted.send([first, FINAL, second], Served(FINAL))
    expected = count_tokens("a word " * 300) + count_tokens("another " * 200)
    assert bill(scripted).prefilled_tokens == pytest.approx(expected, rel=0.1)


def test_what_is_refused_or_let_through_costs_nothing() -> None:
    scripted = Scripted()
    scripted.send([say("user", "Hello.")], refused("no", 400))
    assert bill(scripted).requests == 0


def test_a_shortened_result_is_spared() -> None:
    scripted = Scripted()
    messages = [say("user", "Look."), call("c"), result("c", LONG)]
    scripted.send(messages, Served(FINAL, usage(1_500, 0)))
    (edit,) = scripted.of(Edited)
    told = bill(scripted)
    assert told.prefilled_tokens == 1_500
    assert told.freed_tokens == edit.freed_tokens > 3_000
    assert told.without_tokens == 1_500 + edit.saved_tokens
    assert told.saved_tokens == edit.saved_tokens


def test_a_kept_prefix_is_spared() -> None:
    scripted = Scripted()
    with_a_clock(scripted, "Current time: 2026-03-02 09:00:0{}\nYou help.\n" + LONG)
    told = bill(scripted)
    assert told.prefilled_tokens == 9_100
    assert told.saved_tokens == pytest.approx(9_000, rel=0.1)


def test_what_stands_in_front_of_a_clock_is_not_spared() -> None:
    """It would be cached all the same: here all of the head, but its last few tokens."""
    scripted = Scripted()
    with_a_clock(scripted, "You help.\n" + LONG + "\nCurrent time: 2026-03-02 09:00:0{}")
    assert 0 <= bill(scripted).saved_tokens < 50


def with_a_clock(scripted: Scripted, head: str) -> None:
    one = [say("system", head.format(1)), say("user", "Hello.")]
    scripted.send(one, Served(FINAL, usage(9_000, 0)))
    two = [say("system", head.format(2)), say("user", "Hello."), FINAL, say("user", "And?")]
    scripted.send(two, Served(FINAL, usage(9_100, 9_000)))


def test_clearing_costs_what_is_behind_it() -> None:
    scripted = Scripted(window=6_000, compact=None, evict=None)
    messages = [say("user", "Look.")]
    for n in range(14):
        text = "\n".join(f"{n}.{at} {at * n * 7919 % 99_991}" for at in range(60))
        messages += [call(f"c{n}"), result(f"c{n}", text)]
        scripted.send(messages)
    edits = [edit for edit in scripted.of(Edited) if edit.stage == "clear"]
    assert edits
    told = bill(scripted)
    assert told.edit_cost_tokens == sum(edit.cost_tokens for edit in edits) > 0
    assert told.freed_tokens == sum(edit.freed_tokens for edit in edits) > 1_000


def test_what_the_model_asked_for_is_kvagents_own() -> None:
    scripted = Scripted(recall=Recall())

    def server(body: dict[str, Any]) -> Served:
        asked = len(body["messages"]) == 4
        reply = asks(handle_in(body["messages"]), lines="1-9") if asked else FINAL
        return Served(reply, usage(1_000, 0) if asked else usage(1_300, 1_020, 7))

    scripted.send(history(), server, tools=TOOLS)
    told = bill(scripted)
    assert told.requests == 1
    assert told.prefilled_tokens == 1_000
    assert (told.own_prefilled_tokens, told.own_completion_tokens) == (280, 7)
    evicted = sum(edit.saved_tokens for edit in scripted.of(Edited))
    assert told.without_tokens == 1_000 + evicted
    assert told.saved_tokens == evicted - 280


def test_several_questions_are_each_counted() -> None:
    scripted = Scripted(recall=Recall())
    counts = [usage(1_000, 0), usage(1_300, 1_020), usage(1_500, 1_310)]

    def server(body: dict[str, Any]) -> Served:
        at = len(body["messages"]) // 2 - 2
        reply = FINAL if at == 2 else asks(handle_in(body["messages"]), f"ask-{at}", lines="1-9")
        return Served(reply, counts[at])

    scripted.send(history(), server, tools=TOOLS)
    assert bill(scripted).prefilled_tokens == 1_000
    assert bill(scripted).own_prefilled_tokens == 280 + 190


def test_a_question_whose_answer_failed_is_counted_once() -> None:
    scripted = Scripted(recall=Recall())

    def server(body: dict[str, Any]) -> Served:
        if len(body["messages"]) > 4:
            return refused("out of order", 500)
        return Served(asks(handle_in(body["messages"]), lines="1-9"), usage(1_000, 0))

    scripted.send(history(), server, tools=TOOLS)
    told = bill(scripted)
    assert (told.requests, told.prefilled_tokens, told.own_prefilled_tokens) == (1, 1_000, 0)


def test_a_summary_is_kvagents_own() -> None:
    asked: list[dict[str, Any]] = []

    def summarize(request: dict[str, Any]) -> SummaryReply:
        asked.append(request)
        return SummaryReply("", "stop", (), {"usage": usage(2_000, 1_700, 40)})

    policy = Policy(probe=False, window=6_000, clear=None, compact=Compact(background=False))
    scripted = Scripted(Engine(policy, summarizer=summarize))
    messages = [say("user", "Look.")]
    for n in range(24):
        text = "\n".join(f"{n}.{at} {at * n * 7919 % 99_991}" for at in range(30))
        messages += [call(f"c{n}"), result(f"c{n}", text)]
        scripted.send(messages)
    assert asked
    told = bill(scripted)
    assert told.own_prefilled_tokens == 300 * len(asked)
    assert told.own_completion_tokens == 40 * len(asked)


def test_observing_spares_nothing() -> None:
    scripted = Scripted(mode="observe", evict=Evict(trigger=Tokens(100), keep=200))
    messages = [say("user", "Look."), call("c"), result("c", LONG)]
    scripted.send(messages, Served(FINAL, usage(9_000, 0)))
    told = bill(scripted)
    assert told.prefilled_tokens == told.without_tokens == 9_000
    assert (told.freed_tokens, told.saved_tokens) == (0, 0)


def test_what_keeps_a_prefix_twice_saves_it_once() -> None:
    edits = [
        Edited("c", "echo", "message_reserialised", 3, saved_tokens=70),
        Edited("c", "pin_head", "volatile_text", 0, saved_tokens=900),
        Edited("c", "evict", "result_too_long", 4, saved_tokens=50),
        Edited("c", "evict", "result_too_long", 5, saved_tokens=60),
    ]
    assert saved_tokens(edits) == 900 + 110
    assert saved_tokens([]) == 0


def test_threads_lose_nothing() -> None:
    account = Account()

    def add() -> None:
        for _ in range(2_000):
            account.request(3, 5, 2, 1)
            account.own(Usage(10, 4, 7, None))

    threads = [Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert account.bill() == Bill(8_000, 24_000, 48_000, 56_000, 40_000, 16_000, 8_000)
