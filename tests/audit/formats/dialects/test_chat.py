"""Is a list of messages told from one that is none, and an answer read as far as it goes?"""

from __future__ import annotations

from typing import Any

import pytest

from kvagent.audit.formats.dialects.chat import DIALECT, checked
from kvagent.audit.formats.json_text import Broken
from kvagent.audit.transcript import Reported
from tests.audit.formats.files import ANSWER, CALL, SESSION, USER


def test_messages_are_what_they_were() -> None:
    assert checked(SESSION) is SESSION
    assert DIALECT.asked({"messages": SESSION}).messages is SESSION


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (None, 'has no list of "messages"'),
        ([USER, 7], "has no object as message 1"),
        ([USER, "role"], "has no object as message 1"),
        ([{"content": "x"}], "has a message 0 without a role"),
        ([{"role": None}], "has a message 0 without a role"),
        ([{"role": []}], "has a message 0 without a role"),
        (
            [USER, {**CALL, "tool_calls": {}}, {**CALL, "tool_calls": [1]}],
            "has tool_calls in message 2",
        ),
    ],
)
def test_what_are_no_messages(messages: Any, why: str) -> None:
    with pytest.raises(Broken) as caught:
        checked(messages)
    assert str(caught.value).startswith(why)


def test_an_answer_is_read_as_far_as_it_goes() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": -1, "prompt_cache_hit_tokens": 64}
    choices = [{"message": ANSWER}, {"message": 7}, 8, {"message": {**CALL, "tool_calls": "x"}}]
    answered = DIALECT.answered({"choices": choices, "usage": usage, "error": {"message": "cut"}})
    assert list(answered.replies) == [ANSWER]
    assert answered.reported == Reported(100, 64, None)
    assert answered.error == "cut"


def test_counts_of_llamacpp() -> None:
    timings = {"cache_n": 60, "prompt_n": 40, "predicted_n": 5}
    assert DIALECT.answered({"choices": [], "timings": timings}).reported == Reported(100, 60, 5)


def test_a_stream_that_broke_off() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "On"}}]}
    answer = DIALECT.joined([chunk, {"error": {"message": "too long"}}])
    assert answer is not None
    answered = DIALECT.answered(answer)
    assert answered.replies[0]["content"] == "On"
    assert answered.error == "too long"
    assert DIALECT.joined([{"type": "ping"}]) is None
