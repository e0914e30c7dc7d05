"""What of the results that leave the prompt is told?"""

from __future__ import annotations

from kvagent.clearing import gist
from tests.clearing.prompts import count, log, reply, result, user

MESSAGES = [
    user("look at secret_plan.md"),
    reply("", ("a", "read", {"path": "src/loader.py"}), ("b", "run", {"cmd": "ls   -l\nsrc"})),
    result("a", log(1)),
    result("b", log(2)),
    reply(log(3)),
]


def test_lines_stand_under_their_call() -> None:
    text = gist(MESSAGES, (), room=400, count_tokens=count)
    lines = text.split("\n")
    assert "read src/loader.py:" in lines
    assert "run ls -l src:" in lines
    assert lines[-1].startswith("Also named: ")
    assert 300 < count(text) <= 450


def test_only_what_tools_said() -> None:
    text = gist(MESSAGES, (), room=10**6, count_tokens=count)
    assert "secret_plan" not in text
    assert "_3_" not in text
    assert log(1) in text


def test_what_stands_is_not_told_again() -> None:
    assert gist(MESSAGES, (log(1), log(2)), room=400, count_tokens=count) == ""


def test_nothing_to_tell() -> None:
    assert gist([], (), room=400, count_tokens=count) == ""
    assert gist([result("x", ""), result("y", " \n")], (), room=9, count_tokens=count) == ""
    assert gist(MESSAGES, (), room=0, count_tokens=count) == ""


def test_a_result_whose_call_is_not_known() -> None:
    assert gist([result("x", log(1))], (), room=100, count_tokens=count).startswith("A tool:\n")
