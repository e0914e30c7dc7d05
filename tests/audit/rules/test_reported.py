"""Is it told when a report falls short of what the server must have had?"""

from __future__ import annotations

from collections.abc import Sequence

from kvagent.audit.transcript import Reported, Request
from kvagent.audit.turns import Analysis
from tests.audit.logs import SYSTEM, reply, request, user
from tests.audit.rules.audited import finding, findings

LONG = "The quick brown fox jumps over the lazy dog. " * 300


def log(
    cached: Sequence[float | None],
    gaps: Sequence[float] = (),
    errors: Sequence[str | None] = (),
    text: str = LONG,
) -> list[Request]:
    """A conversation of which each report has that share of what could have been cached."""
    messages = [SYSTEM, user(text)]
    requests = []
    time = 1_000.0
    analysis = Analysis()
    for number, share in enumerate(cached):
        time += gaps[number] if number < len(gaps) else 10.0
        bare = request(messages, number + 1)
        turn = analysis.turn(bare)
        hit = None if share is None else int((turn.predicted_tokens or 0) * share)
        error = errors[number] if number < len(errors) else None
        requests.append(
            request(
                messages,
                number + 1,
                reported=Reported(turn.prompt_tokens, hit, 10),
                time_s=time,
                error=error,
            )
        )
        messages = [*messages, reply(f"answer {number}"), user(f"question {number}")]
    return requests


def test_all_as_predicted() -> None:
    for code in ("KVA405", "KVA406", "KVA407", "KVA409"):
        assert not findings(log([1, 1, 1, 1, 1]), code)


def test_nothing_is_ever_cached() -> None:
    found = finding(log([0, 0, 0, 0, 0]), "KVA406")
    assert "All 5 requests" in found.said
    assert found.tokens > 4_096
    assert found.count == 1


def test_unknown_is_not_nothing() -> None:
    assert not findings(log([None, None, None, None]), "KVA406")


def test_two_requests_say_too_little() -> None:
    assert not findings(log([0, 0]), "KVA406")


def test_a_log_that_has_cached_tokens_once() -> None:
    requests = log([0, 1, 0, 1, 1])
    assert not findings(requests, "KVA406")
    lost = finding(requests, "KVA407")
    assert [spot.turn for spot in lost.spots] == [3]
    assert lost.tokens > 2_000


def test_a_pause() -> None:
    requests = log([0, 1, 0, 1], gaps=[0, 10, 900, 10])
    idle = finding(requests, "KVA405")
    assert [spot.turn for spot in idle.spots] == [3]
    assert not findings(requests, "KVA407")
    assert not findings(log([0, 1, 1, 1], gaps=[0, 10, 900, 10]), "KVA405")


def test_what_follows_a_request_that_failed_says_nothing() -> None:
    errors = (None, None, "Request was aborted.", None)
    requests = log([0, 1, None, 0], errors=errors)
    assert not findings(requests, "KVA407")


def test_short_prompts_are_not_cached() -> None:
    short = "The quick brown fox jumps over the lazy dog. " * 60
    first, *rest = log([0, 0, 0], text=short)
    cached = log([0, 1], text=LONG)
    found = finding([*cached, first, *rest], "KVA409")
    assert found.rule.severity == "note"
