"""Are long results and repeated ones told, and only those?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvagent.audit.prediction import Target
from kvagent.audit.transcript import Request
from kvagent.audit.turns import Analysis
from tests.audit.logs import SYSTEM, Message, call, request, result, user
from tests.audit.rules.audited import finding, findings


def lines(count: int, word: str = "line") -> str:
    return "\n".join(f"{word} {n}: the value is {n * 7919 % 1000}" for n in range(count))


def messages_of(sent: Request) -> list[Message]:
    return [dict(message) for message in sent.messages]


def log(texts: Sequence[str], tool: str = "read") -> list[Request]:
    """An agent that gets one result after the other."""
    messages: list[Message] = [SYSTEM, user("Please look into all of it.")]
    requests = [request(messages)]
    for number, text in enumerate(texts):
        at = f"call_{number}"
        messages = [*messages, call(tool, at, f'{{"path": "{number}"}}'), result(text, at)]
        requests.append(request(messages, number + 2))
    return requests


def test_a_long_result_and_how_far_it_is_carried() -> None:
    found = finding(log([lines(600), *["short"] * 5]), "KVA501")
    assert found.rule.severity == "note"
    (spot,) = found.spots
    assert (spot.turn, spot.message, spot.field) == (2, 3, "content")
    assert spot.excerpt.startswith("line 0:")
    assert found.tokens == spot.tokens > 5_000
    assert "1 result of read is long" in found.said
    assert "5 later requests carried it" in found.said


def test_many_long_results_are_one_finding() -> None:
    found = finding(log([lines(500, f"file{n}") for n in range(80)]), "KVA501")
    assert found.rule.severity == "warning"
    assert (found.count, len(found.spots)) == (80, 50)
    assert found.tokens > 80 * 4_000
    assert "80 results of read are long" in found.said


def test_one_finding_for_each_tool() -> None:
    messages = messages_of(log([lines(600)])[-1])
    more = [*messages, call("write", "x"), result(lines(700, "other"), "x")]
    found = findings([request(messages), request(more, 2)], "KVA501")
    assert {each.said.split()[3] for each in found} == {"read", "write"}


def test_short_results_are_none() -> None:
    assert not findings(log([lines(200), "short"]), "KVA501")


def test_long_texts_that_are_no_results() -> None:
    asked = request([SYSTEM, user(lines(900))])
    assert not findings([asked], "KVA501")


def test_in_a_large_window_more_is_long() -> None:
    def within(window: int) -> Analysis:
        return Analysis(target=Target(window=window))

    requests = log([lines(600)])
    assert finding(requests, "KVA501", within(16_384)).rule.severity == "warning"
    assert finding(requests, "KVA501", within(65_536)).rule.severity == "note"
    assert not findings(requests, "KVA501", within(1_000_000))


def test_a_result_that_is_removed_is_carried_no_further() -> None:
    requests = log([lines(600), "a", "b", "c"])
    *first, last = requests
    kept = [message for message in messages_of(last) if "line 599" not in str(message)]
    found = finding([*first, request(kept, 9), request([*kept, user("on")], 10)], "KVA501")
    assert "2 later requests carried it" in found.said


def test_a_result_behind_a_changed_message_is_the_same_result() -> None:
    *first, last = log([lines(600), "a", "b", "c"])
    changed = [{**SYSTEM, "content": "You are another agent."}, *messages_of(last)[1:]]
    found = finding([*first, request(changed, 9)], "KVA501")
    assert found.count == 1
    assert "3 later requests carried it" in found.said


def test_a_result_twice() -> None:
    text = lines(60)
    found = finding(log([text, "other", text, "more"]), "KVA502")
    (spot,) = found.spots
    assert (spot.turn, spot.message) == (4, 7)
    assert found.tokens == spot.tokens > 300
    assert "A result of read" in found.said


@pytest.mark.parametrize(
    "texts",
    [
        [lines(60), lines(61)],
        ["still running", "still running", "still running"],
        [lines(60, "one"), lines(60, "two")],
    ],
)
def test_results_that_differ_or_are_short(texts: list[str]) -> None:
    assert not findings(log(texts), "KVA502")


def test_the_same_result_in_two_conversations() -> None:
    one, other = log([lines(60)]), log([lines(60)])
    apart = [request([SYSTEM, user("Another task."), *messages_of(each)[2:]], 9) for each in other]
    assert not findings([*one, *apart], "KVA502")


def test_a_repeat_whose_first_copy_is_gone() -> None:
    text = lines(60)
    messages = [
        *(SYSTEM, user("Please look.")),
        *(call("read", "a"), result("[old result cleared]", "a")),
        *(call("read", "b"), result(text, "b")),
    ]
    *_, before = log([text])
    assert not findings([before, request(messages, 9)], "KVA502")


def test_a_repeat_is_told_once() -> None:
    """Although the head changes, so that all that follows is new."""
    *first, last = log([lines(60), lines(60)])
    changed = [{**SYSTEM, "content": "You are another agent."}, *messages_of(last)[1:]]
    assert finding([*first, last, request(changed, 9)], "KVA502").count == 1
