"""Which results does a later one stand for?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvagent.clearing.superseded import answered, superseded
from tests.clearing.prompts import Message, reply, result


def reasons(*exchanges: tuple[str, Mapping[str, Any], str]) -> dict[int, str]:
    """By number of the exchange: tool, arguments, result."""
    messages: list[Message] = []
    for n, (tool, arguments, text) in enumerate(exchanges):
        messages += [reply("", (f"c{n}", tool, arguments)), result(f"c{n}", text)]
    found = superseded(messages, answered(messages))
    return {position // 2: reason for position, reason in found.items()}


def test_the_same_text_again() -> None:
    assert reasons(("a", {}, "one two"), ("b", {"x": 1}, "one two")) == {0: "repeat"}


def test_the_same_call_again() -> None:
    first, again = {"cmd": "make", "n": 1}, {"n": 1, "cmd": "make"}
    assert reasons(("run", first, "failed"), ("run", again, "passed")) == {0: "superseded"}


def test_another_call_stands_for_nothing() -> None:
    assert reasons(("run", {"cmd": "ls a"}, "x"), ("run", {"cmd": "ls b"}, "y")) == {}
    assert reasons(("run", {"cmd": "ls"}, "x"), ("see", {"cmd": "ls"}, "y")) == {}


def test_a_part_of_a_file_that_was_read_as_a_whole_since() -> None:
    part = {"path": "a.py", "offset": 10, "limit": 5}
    assert reasons(("read", part, "five lines"), ("read", {"path": "a.py"}, "all")) == {
        0: "superseded"
    }


def test_a_whole_file_of_which_a_part_was_read_since_stays() -> None:
    part = {"path": "a.py", "offset": 10, "limit": 5}
    assert reasons(("read", {"path": "a.py"}, "all"), ("read", part, "five lines")) == {}


def test_a_file_that_was_written_anew_since() -> None:
    write = {"path": "a.py", "content": "new"}
    assert reasons(("read", {"path": "a.py"}, "old"), ("write", write, "done")) == {0: "superseded"}


def test_a_file_that_was_edited_since_is_still_mostly_so() -> None:
    edit = {"path": "a.py", "old_string": "x", "new_string": "y"}
    assert reasons(("read", {"path": "a.py"}, "all of it"), ("edit", edit, "done")) == {}


def test_what_a_call_gave_is_not_superseded_by_itself() -> None:
    assert reasons(("write", {"path": "a.py", "content": "x"}, "done")) == {}


def test_results_without_a_call_and_calls_that_cannot_be_read() -> None:
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "c", "function": None}]},
        result("c", "something"),
        result("lost", "something else"),
        {"role": "assistant", "tool_calls": [{"id": "d", "function": {"arguments": "[["}}]},
        result("d", "a third"),
    ]
    assert superseded(messages, answered(messages)) == {}
