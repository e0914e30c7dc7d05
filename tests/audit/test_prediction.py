"""Does the prediction take from the cache what the simulators take, also where it takes less time?"""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvagent.audit import prediction as module
from kvagent.audit.formats import read
from kvagent.audit.prediction import HashedPrediction, Prediction, Target
from kvagent.audit.transcript import Hashed, Place

PROMPTS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 1), min_size=1, max_size=40)), max_size=12
)
SALTS = st.lists(st.sampled_from((None, "a", "b")), min_size=12, max_size=12)


@given(PROMPTS, SALTS, st.sampled_from((1, 3, 4, 16)))
def test_a_cache_without_an_end_is_that_of_the_simulator(
    prompts: list[tuple[int, list[int]]], salts: list[str | None], size: int
) -> None:
    target = Target(block_size=size)
    prediction, simulator = Prediction(target), target.fresh()
    seen: set[int] = set()
    for (branch, tokens), salt in zip(prompts, salts, strict=False):
        options = {} if salt is None else {"cache_salt": salt}
        ids = array("I", tokens)
        left = branch if branch in seen else None
        seen.add(branch)
        assert prediction.expect(ids, options, branch, left) == simulator.expect(ids, options)


@given(PROMPTS)
def test_any_other_cache_is_the_simulator(prompts: list[tuple[int, list[int]]]) -> None:
    for target in (Target(block_size=4, blocks=20), Target("llama.cpp", slots=2, window=64)):
        prediction, simulator = Prediction(target), target.fresh()
        for branch, tokens in prompts:
            ids = array("I", tokens)
            assert prediction.expect(ids, {}, branch, branch) == simulator.expect(ids, {})


def test_a_prompt_that_fills_the_window_is_refused() -> None:
    prediction = Prediction(Target(window=8))
    assert prediction.expect(array("I", range(8)), {}, 0, None) is None
    assert prediction.expect(array("I", range(7)), {}, 0, None) is not None


def test_starting_anew_keeps_what_was_sent_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FORGET", 100)
    for target in (Target(), Target(blocks=1_000)):
        prediction = Prediction(target)
        for number in range(20):
            for branch in (0, 1):
                ids = array("I", range(branch * 10_000, branch * 10_000 + 64 + 32 * number))
                hit = prediction.expect(ids, {}, branch, branch if number else None)
                assert hit is not None
                assert hit.cached_tokens == (len(ids) - 32 if number else 0)


# As the list of the recorded data says.
IDEAL = {
    "0107": 0.7487,
    "0232": 0.8205,
    "0069": 0.9457,
    "0247": 0.9325,
    "0158": 0.9750,
    "0545": 0.9675,
    "0603": 0.9782,
    "0366": 0.9863,
}


@pytest.mark.parametrize("name", sorted(IDEAL))
def test_traces_of_hashes(name: str, shared: Path) -> None:
    prediction = HashedPrediction()
    hits = blocks = 0
    for item in read(shared / "data" / "weka" / f"trace_{name}.json"):
        assert isinstance(item, Hashed)
        hit = prediction.expect(item)
        assert hit is not None
        hits += hit.cached_tokens // item.block_size
        blocks += item.prompt_tokens // item.block_size
    assert round(hits / blocks, 4) == IDEAL[name]


def test_hashes_with_nothing_in_them() -> None:
    assert HashedPrediction().expect(Hashed(Place("x"), (), 64, 0)) is None
    hit = HashedPrediction().expect(Hashed(Place("x"), (1,), 64, 10))
    assert hit is not None
    assert hit.cached_tokens == 0
