"""Is it told when a conversation changes what its cached prefix is kept under?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit.rules.cache_key import CacheKey
from kvagent.audit.transcript import Request
from kvagent.audit.turns import Analysis, Turn
from tests.audit.logs import request, session
from tests.audit.rules.audited import finding, findings

CODES = ("KVA404", "KVA411", "KVA412")


def log(*options: dict[str, Any]) -> list[Request]:
    prompts = session("a", len(options) - 1, 3)
    pairs = zip(prompts, options, strict=True)
    return [request(prompt, n, options=each) for n, (prompt, each) in enumerate(pairs, 1)]


@pytest.mark.parametrize(
    ("key", "code", "severity"),
    [
        ("cache_salt", "KVA404", "error"),
        ("prompt_cache_key", "KVA411", "warning"),
        ("model", "KVA412", "warning"),
    ],
)
def test_a_key_that_changes(key: str, code: str, severity: str) -> None:
    found = finding(log({key: "a"}, {key: "a"}, {key: "b"}, {key: "b"}), code)
    assert found.rule.severity == severity
    (spot,) = found.spots
    assert (spot.turn, spot.field) == (3, key)
    assert spot.contrast is not None
    assert (spot.contrast.before, spot.contrast.after) == ("a", "b")
    assert spot.tokens > 0


def test_keys_that_stay() -> None:
    same = {"cache_salt": "s", "model": "m", "prompt_cache_key": "k", "temperature": 0}
    for code in CODES:
        assert not findings(log(same, {**same, "temperature": 1}, same), code)


def test_a_salt_that_comes_and_goes_is_another_one() -> None:
    assert finding(log({}, {"cache_salt": "s"}, {}), "KVA404").count == 2
    assert not findings(log({}, {"model": "m"}, {}), "KVA412")


def test_to_come_back_costs_only_what_is_new_since() -> None:
    """What a model has computed of the conversation it still has."""
    found = finding(log(*[{"model": "a"}] * 6, {"model": "b"}, {"model": "a"}), "KVA412")
    there, back = (spot.tokens for spot in found.spots)
    assert back < there


KEYS = ("cache_salt", "model", "prompt_cache_key")
OPTIONS = st.fixed_dictionaries({}, optional={key: st.sampled_from("abc") for key in KEYS})


@given(st.lists(OPTIONS, min_size=2, max_size=12))
def test_a_value_still_has_what_was_sent_with_it_last(options: list[dict[str, Any]]) -> None:
    check, sent = CacheKey(), dict[tuple[str, str | None], int]()
    for turn in Analysis().turns(log(*options)):
        assert isinstance(turn, Turn)
        seen = {each.key: each.spot.tokens for each in check.turn(turn)}
        for key in KEYS:
            this = key, turn.request.options.get(key)
            if key in seen:
                assert seen[key] == max(0, turn.reusable_tokens - sent.get(this, 0))
            sent[this] = turn.prompt_tokens


def test_two_conversations_may_have_two_salts() -> None:
    one, other = session("a", 2, 3), session("b", 2, 3)
    requests = [
        request(prompt, n, options={"cache_salt": name})
        for n, (prompt, name) in enumerate(
            pair for both in zip(one, other, strict=True) for pair in zip(both, "ab", strict=True)
        )
    ]
    assert not findings(requests, "KVA404")
