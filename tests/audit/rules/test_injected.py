"""Is a fault found wherever it is put, and nothing where there is none?"""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.audit.logs import TOOLS, Message, call, interleaved, request, result
from tests.audit.rules.injected import KINDS, requests, session
from tests.audit.rules.sightings import sightings


@settings(deadline=None)
@given(interleaved())
def test_sessions_that_only_grow_have_no_fault(mixed: list[tuple[int, list[Message]]]) -> None:
    log = [request(prompt, at, tools=TOOLS) for at, (_, prompt) in enumerate(mixed, 1)]
    assert sightings(log) == []


@settings(deadline=None)
@given(st.integers(0, 999_999), st.integers(1, 12))
def test_nor_has_an_agent_that_reasons(seed: int, steps: int) -> None:
    assert sightings(requests(session(seed, steps))) == []


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 999_999), st.integers(4, 14), st.integers(1, 13))
@pytest.mark.parametrize("kind", KINDS)
def test_an_injected_fault_is_found(kind: str, seed: int, steps: int, at: int) -> None:
    assume(at < steps)
    sent = session(seed, steps)
    truth = KINDS[kind](sent, at, random.Random(seed))
    if truth is None:
        return
    found = sightings(requests(sent))
    first = found[0]
    assert (first.rule.code, first.spot.turn, first.spot.message) == (
        truth.code,
        truth.turn,
        truth.message,
    )
    assert {each.rule.code for each in found} == {truth.code}
    assert truth.code == "KVA205" or len({each.spot.turn for each in found}) == 1
    assert first.spot.conversation == 0


@settings(deadline=None)
@given(st.integers(0, 99_999), st.integers(1, 14))
def test_going_back_retrying_and_fanning_out_are_no_fault(seed: int, steps: int) -> None:
    """Each request goes on from any that was sent before, or from a part of it."""
    chance = random.Random(seed)
    whole = session(seed, 8)[-1].messages
    sent = [whole[:2]]
    for step in range(steps):
        before = chance.choice(sent[-4:])
        # Cut behind a message that is not the model's, with all results of its calls.
        ends = [at for at, each in enumerate(before) if each["role"] in ("user", "tool")]
        prompt = before[: chance.choice([*ends, ends[-1], ends[-1]]) + 1]
        for more in range(chance.randrange(3)):
            at = f"{step}_{more}_{seed}"
            prompt = [
                *prompt,
                call("read", at, f'{{"path":"{at}.py"}}'),
                result(f"{at}: " + f"line {at}\n" * 4, at),
            ]
        sent.append(prompt)
    assert sightings(request(prompt, at, tools=TOOLS) for at, prompt in enumerate(sent, 1)) == []
