"""Can a user say what kvagent may change, and is a mistake named?"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kvagent import Echo, Evict, Fraction, PinHead, Policy, Tokens, Volatile
from kvagent.policy import Trigger, parse_trigger


@pytest.mark.parametrize(
    ("trigger", "tokens", "window", "trips"),
    [
        (Tokens(100), 100, None, False),
        (Tokens(100), 101, None, True),
        (Tokens(100), 101, 50, True),
        (Tokens(0), 1, None, True),
        (Fraction(0.5), 51, 100, True),
        (Fraction(0.5), 50, 100, False),
        (Fraction(0.5), 1_000_000, None, False),
        (Fraction(1), 101, 100, True),
        (Tokens(10) | Fraction(0.5), 11, None, True),
        (Tokens(100) | Fraction(0.5), 60, 100, True),
        (Tokens(100) & Fraction(0.5), 60, 100, False),
        (Tokens(10) & Fraction(0.5), 60, 100, True),
        (Tokens(10) & Fraction(0.5), 60, None, False),
        (Tokens(90) | Tokens(10) & Fraction(0.9), 60, 100, False),
        ((Tokens(90) | Tokens(10)) & Fraction(0.5), 60, 100, True),
    ],
)
def test_a_trigger_decides_from_count_and_window(
    trigger: Trigger, tokens: int, window: int | None, trips: bool
) -> None:
    assert trigger(tokens, window) is trips


@pytest.mark.parametrize(
    ("value", "trigger"),
    [
        (3000, Tokens(3000)),
        (3000.0, Tokens(3000)),
        (0.8, Fraction(0.8)),
        (Tokens(5), Tokens(5)),
        ("tokens(80_000)", Tokens(80_000)),
        (" Fraction ( .8 ) ", Fraction(0.8)),
        ("fraction(1)", Fraction(1)),
        ("tokens(80_000) | fraction(0.8)", Tokens(80_000) | Fraction(0.8)),
        ("tokens(1)|tokens(2)&tokens(3)", Tokens(1) | (Tokens(2) & Tokens(3))),
        ("(tokens(1)|tokens(2))&tokens(3)", (Tokens(1) | Tokens(2)) & Tokens(3)),
        ("((tokens(1)))", Tokens(1)),
    ],
)
def test_triggers_are_read(value: Any, trigger: Trigger) -> None:
    assert Evict(trigger=value).trigger == trigger


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "above 0"),
        (-1, "above 0"),
        (float("nan"), "above 0"),
        (1.0, "neither a number of tokens nor a fraction"),
        (1.5, "neither a number of tokens nor a fraction"),
        (float("inf"), "neither a number of tokens nor a fraction"),
        (True, "a trigger is a number"),
        ([], "a trigger is a number"),
        ([1], "a trigger is a number"),
        ("", 'cannot read the trigger "" at character 0'),
        ("80000", "at character 0"),
        ("tokens(1) |", "at character 11"),
        ("tokens(1) tokens(2)", "at character 10"),
        ("(tokens(1)", "at character 10"),
        ("tokens(1))", "at character 9"),
        ("tokens(1.5)", "cannot read the trigger"),
        ("tokens(1e400)", "cannot read the trigger"),
        ("fraction(80)", "at most 1"),
        ("fraction(0)", "above 0"),
        ("fraction(1e-999)", "above 0"),
        ("seconds(5)", "at character 0"),
    ],
)
def test_a_mistake_in_a_trigger_is_named(value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Evict(trigger=value)
    assert words in str(caught.value)


@pytest.mark.parametrize("share", [0, -0.1, 80, float("nan")])
def test_a_fraction_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="a share is above 0 and at most 1"):
        Fraction(share)


def test_a_count_is_not_negative() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Tokens(-1)


triggers = st.recursive(
    st.builds(Tokens, st.integers(0, 10**7)) | st.builds(Fraction, st.floats(1e-9, 1)),
    lambda inner: (
        st.builds(lambda a, b: a | b, inner, inner) | st.builds(lambda a, b: a & b, inner, inner)
    ),
    max_leaves=8,
)


@given(triggers, st.integers(0, 10**6), st.none() | st.integers(1, 10**6))
def test_a_trigger_that_was_written_reads_as_the_same(
    trigger: Trigger, tokens: int, window: int | None
) -> None:
    again = parse_trigger(str(trigger))
    assert str(again) == str(trigger)
    assert again(tokens, window) == trigger(tokens, window)


def test_the_default_policy_says_what_the_documentation_says() -> None:
    policy = Policy()
    assert policy.mode == "full"
    assert policy.evict is not None
    assert policy.evict.trips(2_001, None)
    assert not policy.evict.trips(2_000, None)
    assert policy.evict.tokens_kept(5_000, None) == 1_000
    assert policy.evict.trips(801, 32_000)
    assert policy.evict.tokens_kept(20_000, 32_000) == 4_000
    assert policy.evict.tokens_kept(1_000_000, 32_000) == 8_000
    assert (policy.pin_head, policy.echo) == (PinHead(), Echo())
    assert policy.warn_at == (0.70, 0.85, 0.95)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(evict=None, pin_head=None, echo=None),
        Policy(evict=Evict(trigger=Tokens(10) | Fraction(0.5), exclude_tools=("a", "b"))),
        Policy(volatile=Volatile(patterns=(r"Battery: (?P<value>\d+) %",)), window=8_192),
    ],
)
def test_a_policy_survives_json(policy: Policy) -> None:
    assert Policy.model_validate_json(policy.model_dump_json()) == policy


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "fast"},
        {"window": 0},
        {"evict": {"keep": 10}},
        {"evict": {"tigger": 3000}},
        {"evikt": None},
        {"warn_at": [70]},
        {"warn_at": [0]},
        {"memory_bytes": 0},
        {"volatile": {"patterns": ["("]}},
        {"volatile": {"patterns": ["x*"]}},
    ],
)
def test_mistakes_are_named_with_their_place(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        Policy.model_validate(fields)
    place = caught.value.errors()[0]["loc"][0]
    assert place == next(iter(fields))


def test_a_pattern_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ValidationError, match="matches the empty text"):
        Volatile(patterns=(r"\d*",))
    with pytest.raises(ValidationError, match="is no regular expression"):
        Volatile(patterns=("[",))


def test_a_policy_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(Policy(), "mode", "safe")  # noqa: B010
