"""Are tools that nobody calls told, but not of a short log?"""

from __future__ import annotations

import hashlib
from typing import Any

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
