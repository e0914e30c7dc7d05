"""Is a report that differs from the prediction explained by what the log shows?"""

from __future__ import annotations

import pytest

from kvagent.audit.reported import SENTENCES, Gap, Reason
from kvagent.audit.transcript import Reported
from kvagent.audit.turns import Analysis
from tests.audit.logs import SYSTEM, Message, reply, request, user

LONG = {**SYSTEM, "content": SYSTEM["content"] * 400}


def gaps(
    *cached: int | None,
    answer: int = 0,
    longer: int = 0,
    apart_s: float = 10.0,
    complete: frozenset[str] = frozenset({"system", "tools"}),
    head: Message | None = LONG,
    error: str | None = None,
) -> list[Gap | None]:
    """A conversation of so many requests, with these reports.

    ``longer``: the maker counts so many more prompt tokens than the estimate.
    """
    analysis = Analysis()
    messages = [*([head] if head else []), user("question " * 1_500)]
    found = []
    for number, tokens in enumerate(cached):
        size = analysis.turn(request(messages, conversation=f"sizing {number}")).prompt_tokens
        reported = Reported(size + longer, tokens, answer)
        sent = request(
            messages,
            reported=reported,
            conversation="a",
            time_s=number * apart_s,
            complete=complete,
            error=error,
        )
        found.append(sent)
        messages = [*messages, reply("answer " * 400), user("go on " * 400)]
    fresh = Analysis()
    return [fresh.turn(sent).gap for sent in found]


def reasons(*cached: int | None, **more: object) -> list[Reason | None]:
    return [None if gap is None else gap.reason for gap in gaps(*cached, **more)]  # type: ignore[arg-type]


def test_nothing_is_reported() -> None:
    assert gaps(None, None) == [None, None]


def test_as_predicted() -> None:
    expected = [gap.expected_tokens for gap in gaps(0, 0, 0) if gap]
    assert expected[0] == 0
    assert expected[1] > 4_000
    assert reasons(*expected) == ["agrees"] * 3
    assert reasons(expected[0], expected[1] - 100, expected[2]) == ["agrees"] * 3


def test_more_was_cached() -> None:
    _, expected = (gap.expected_tokens for gap in gaps(0, 0) if gap)
    assert reasons(3_000, expected) == ["earlier", "agrees"]
    assert reasons(0, expected + 700, answer=600) == ["agrees", "answer"]
    assert reasons(0, expected + 2_000, answer=600) == ["agrees", "otherwise"]


def test_less_was_cached() -> None:
    _, expected = (gap.expected_tokens for gap in gaps(0, 0) if gap)
    assert reasons(0, 0) == ["agrees", "never_reported"]
    assert reasons(0, expected, 0) == ["agrees", "agrees", "lost"]
    assert reasons(0, expected, 0, apart_s=900.0) == ["agrees", "agrees", "idle"]
    assert reasons(0, expected, 0, error="500") == ["agrees", "agrees", "failed"]


def test_a_head_that_the_transcript_lacks_counts_as_cached() -> None:
    first, second = gaps(0, 0, longer=5_000, complete=frozenset(), head=None)
    assert first is not None
    assert second is not None
    assert first.expected_tokens == 0
    without = gaps(0, 0, complete=frozenset(), head=None)[1]
    assert without is not None
    assert second.expected_tokens == without.expected_tokens + 5_000


def test_a_maker_with_another_tokenizer_is_compared_by_shares() -> None:
    plain, scaled = gaps(0, 0)[1], gaps(0, 0, longer=3_000)[1]
    assert plain is not None
    assert scaled is not None
    assert scaled.expected_tokens > plain.expected_tokens
    assert scaled.tokens == -scaled.expected_tokens


@pytest.mark.parametrize("reason", sorted(SENTENCES))
def test_each_reason_has_a_sentence(reason: Reason) -> None:
    assert SENTENCES[reason]
