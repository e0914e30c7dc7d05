"""Are tools that nobody calls told, but not of a short log?"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.transcript import Request
from tests.audit.logs import SYSTEM, TOOLS, Message, call, request, result, user
from tests.audit.rules.audited import finding, findings

SPARE: dict[str, Any] = {
    "type": "function",
    "function": {"name": "send_mail", "description": "To send a mail to somebody. " * 50},
}


def hash_of(number: int) -> str:
    """Some text that has nothing in common with that of another number."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def log(conversations: int, calls: int, tools: list[dict[str, Any]] | None = None) -> list[Request]:
    requests: list[Request] = []
    for number in range(conversations):
        task = f"{hash_of(number)} is what you should look for."
        messages: list[Message] = [SYSTEM, user(task)]
        given = [*TOOLS, SPARE] if tools is None else tools
        requests.append(request(messages, len(requests) + 1, tools=given))
        for step in range(calls):
            at = f"c{number}_{step}"
            messages = [*messages, call("read", at), result(f"{hash_of(number)} {step}", at)]
            requests.append(request(messages, len(requests) + 1, tools=given))
    return requests


def test_a_tool_that_nobody_calls() -> None:
    found = finding(log(5, 12), "KVA503")
    assert found.rule.severity == "note"
    assert "2 of 3 tools were never called in 60 calls: write, send_mail." in found.said
    assert [spot.tool for spot in found.spots] == [1, 2]
    assert found.tokens > 200


def test_a_short_log_says_nothing() -> None:
    assert not findings(log(2, 12), "KVA503")
    assert not findings(log(5, 6), "KVA503")
    assert not findings(log(1, 60), "KVA503")


def test_one_very_long_conversation_does() -> None:
    assert finding(log(1, 220), "KVA503").count == 2


def test_small_tools_are_not_worth_a_word() -> None:
    assert not findings(log(5, 12, TOOLS), "KVA503")


def test_one_call_in_the_whole_log_is_enough() -> None:
    called = [SYSTEM, user("mail"), call("send_mail", "x"), result("sent", "x")]
    requests = [*log(5, 12), request(called, 99, tools=[*TOOLS, SPARE])]
    assert not findings(requests, "KVA503")
    answered = request(called[:2], 99, tools=[*TOOLS, SPARE], replies=[called[2]])
    assert not findings([*log(5, 12), answered], "KVA503")


def test_a_log_without_calls() -> None:
    requests = [
        request([SYSTEM, user(f"question {n}")], n, tools=[*TOOLS, SPARE]) for n in range(300)
    ]
    assert not findings(requests, "KVA503")


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 3))), max_size=30))
def test_calls_count_for_the_tools_that_were_offered(offers: list[tuple[int, set[int]]]) -> None:
    """Whichever conversation, and whichever of the tools, a request has."""
    spares = [
        {"type": "function", "function": {**SPARE["function"], "name": f"spare_{number}"}}
        for number in range(4)
    ]
    sent: dict[int, list[Message]] = {}
    calls: Counter[int] = Counter()
    conversations: Counter[int] = Counter()
    last: dict[int, int] = {}
    requests: list[Request] = []
    for line, (number, offered) in enumerate(offers, 1):
        before = sent.get(number) or [SYSTEM, user(f"{hash_of(number)} is your task.")]
        reads = call("read", "", f'{{"path": "{hash_of(-line)}"}}')
        (one,) = reads["tool_calls"]
        reads["tool_calls"] = [{**one, "id": f"c{line}_{at}"} for at in range(20)]
        sent[number] = [*before, reads]
        tools = [spares[each] for each in sorted(offered)]
        requests.append(request(sent[number], line, tools=tools))
        for each in offered:
            calls[each] += 20
            conversations[each] += last.get(each) != number
            last[each] = number
    dead = {
        each
        for each, count in calls.items()
        if count >= 200 or (count >= 50 and conversations[each] >= 3)
    }
    if not dead:
        assert not findings(requests, "KVA503")
        return
    found = finding(requests, "KVA503")
    assert found.count == len(dead)
    assert f"never called in {min(calls[each] for each in dead)} calls" in found.said


def test_a_tool_that_is_defined_twice_counts_once() -> None:
    twice = [*TOOLS, SPARE, SPARE]
    assert not findings(log(3, 12, twice), "KVA503")
    assert finding(log(5, 12, twice), "KVA503").count == 2
