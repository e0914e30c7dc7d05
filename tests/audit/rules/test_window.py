"""Is the end of the window told before it comes, and when it came?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvagent.audit.prediction import Target
from kvagent.audit.transcript import Hashed, Place, Request
from kvagent.audit.turns import Analysis
from tests.audit.logs import SYSTEM, Message, call, request, result, user
from tests.audit.rules.audited import finding, findings

VLLM = (
    "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. "
    "However, your prompt contains at least 8193 input tokens, which exceeds this limit even "
    "without any output tokens. Please reduce the length of the input prompt. "
    "(parameter=input_tokens, value=8193)\", 'type': 'BadRequestError', 'code': 400}}"
)
LLAMA = (
    '{"error":{"code":400,"message":"request (66202 tokens) exceeds the available context size '
    '(65536 tokens), try increasing it","type":"exceed_context_size_error",'
    '"n_prompt_tokens":66202,"n_ctx":65536}}'
)


def within(window: int) -> Analysis:
    return Analysis(target=Target(window=window))


def log(steps: int, errors: Sequence[str | None] = ()) -> list[Request]:
    """About two hundred tokens a step."""
    messages: list[Message] = [SYSTEM, user("Please look into all of it.")]
    requests = []
    for step in range(steps):
        error = errors[step] if step < len(errors) else None
        requests.append(request(messages, step + 1, error=error))
        at = f"call_{step}"
        text = "\n".join(f"{step} {n} the value" for n in range(35))
        messages = [*messages, call("read", at, f'{{"path": "{step}"}}'), result(text, at)]
    return requests


def test_a_window_that_is_nearly_full() -> None:
    found = finding(log(20), "KVA505", within(5_000))
    assert found.rule.severity == "warning"
    assert found.spots[0].turn == 20
    assert "is full in" in found.said
    assert "5,000 tokens" in found.said


@pytest.mark.parametrize("window", [9_000, 100_000])
def test_a_window_with_room(window: int) -> None:
    assert not findings(log(20), "KVA505", within(window))


def test_an_unknown_window_is_never_near() -> None:
    assert not findings(log(20), "KVA505")


def test_two_turns_show_no_growth() -> None:
    assert not findings(log(2), "KVA505", within(500))


def test_prompts_that_do_not_fit() -> None:
    found = finding(log(20), "KVA508", within(2_000))
    assert found.rule.severity == "error"
    assert found.count > 5
    assert not findings(log(20), "KVA508", within(8_000))
    assert not findings(log(20), "KVA508")


@pytest.mark.parametrize(("error", "window"), [(VLLM, "8,192"), (LLAMA, "65,536")])
def test_an_overflow_in_the_log(error: str, window: str) -> None:
    found = finding(log(5, [None] * 4 + [error]), "KVA506")
    assert found.rule.severity == "error"
    assert f"{window} tokens" in found.said
    assert [spot.turn for spot in found.spots] == [5]


@pytest.mark.parametrize("error", ["Request was aborted.", "429 rate limit", "", "500 oops"])
def test_another_error_is_none(error: str) -> None:
    requests = log(5, [None] * 4 + [error])
    assert not findings(requests, "KVA506")


def test_the_limit_that_an_error_tells_is_the_window() -> None:
    """Another conversation that grows towards it."""
    requests = log(35)
    other = request([SYSTEM, user("Something else entirely, and much too long.")], 99, error=VLLM)
    assert finding([*requests, other], "KVA505").count == 1
    assert not findings([*log(20), other], "KVA505")


def test_the_same_again_after_an_overflow() -> None:
    *first, last = log(5, [None] * 4 + [VLLM])
    found = finding([*first, last, last, last], "KVA507")
    assert found.count == 2
    assert finding([*first, last, last, last], "KVA506").count == 3


def test_a_retry_that_helps_is_none() -> None:
    *first, last = log(5, [None] * 4 + [VLLM])
    again = request([dict(message) for message in last.messages], 9)
    assert not findings([*first, last, again], "KVA507")
    other = log(5, [None] * 4 + ["Connection error."])
    assert not findings([*other, other[-1]], "KVA507")


def test_prompts_that_do_not_fit_the_cache() -> None:
    small = Analysis(target=Target(blocks=100))
    found = finding(log(20), "KVA508", small)
    assert "a cache of 1,600 tokens" in found.said
    assert not findings(log(20), "KVA508", Analysis(target=Target(blocks=1_000)))


def test_a_trace_with_prompts_that_do_not_fit() -> None:
    trace = [Hashed(Place("t.jsonl", n), range(n), 512, n * 512) for n in range(1, 9)]
    found = finding(trace, "KVA508", Analysis(target=Target(blocks=4 * 32)))
    assert found.spots[0].turn in (4, 5)
    assert found.count == 9 - found.spots[0].turn
    assert not findings(trace, "KVA508")
