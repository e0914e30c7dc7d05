"""Does a policy say what it means, and all that is set in it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvagent import Clear, Compact, Evict, Fraction, Hints, Policy, Recall, Tokens, Volatile
from kvagent.cli.policy_file import read_policy
from kvagent.policy import KV, Mend

SET: list[dict[str, Any]] = [
    {"mode": "safe"},
    {"mode": "observe"},
    {"window": 12_345},
    {"pin_head": None},
    {"volatile": Volatile(patterns=(r"Battery: (?P<value>\d+) %", "b+"))},
    {"echo": None},
    {"evict": None},
    {"evict": Evict(trigger=Tokens(10) | Fraction(0.5) & Tokens(7))},
    {"evict": Evict(keep=777, exclude_tools=("kvagent_recall", "cat"))},
    {"clear": None},
    {"clear": Clear(keep=9, exclude_tools=(), clear_tool_inputs=False)},
    {"clear": Clear(clear_at_least=4_321, spare=0.25, carry_cost=0.125)},
    {"clear": Clear(carry_cost=0)},
    {"compact": None},
    {"compact": Compact(keep_turns=7, budget=0.11, max_tokens=1_234, background=False)},
    {"recall": Recall()},
    {"recall": Recall(answer="agent", max_calls=3, max_tokens=567)},
    {"kv": KV(model="llama-3-8b")},
    {"kv": KV(model="llama-3-8b", dtype="q8_0", tp=2)},
    {"mend": None},
    {"mend": Mend(reasoning=False, switches=True, system_message=True)},
    {"template": Path("chat.jinja")},
    {"hints": Hints(id_slot="role", cache_salt=True, cache_prompt=True, session_header="X-Id")},
    {"warn_at": (0.5, 0.25)},
    {"warn_at": ()},
    {"probe": False},
    {"memory_bytes": 4_096},
]


@pytest.mark.parametrize("fields", SET, ids=str)
@pytest.mark.parametrize("window", [None, 32_000])
def test_all_that_is_set_is_said(fields: dict[str, Any], window: int | None) -> None:
    """And said so that it can be set by it."""
    policy = Policy(**fields)
    told = next(line for line in policy.explain(window).split("\n") if line.startswith("set: "))
    assert read_policy(None, told.removeprefix("set: ").split("; ")) == policy


def test_every_field_is_among_them() -> None:
    assert {name for fields in SET for name in fields} == set(Policy.model_fields)
    inner: dict[str, set[str]] = {}
    for fields in SET:
        for name, value in fields.items():
            inner.setdefault(name, set()).update(getattr(value, "model_fields_set", ()))
    for name in ("volatile", "evict", "clear", "compact", "recall", "kv", "mend", "hints"):
        value = next(fields[name] for fields in SET if fields.get(name) is not None)
        assert inner[name] == set(type(value).model_fields), name


def test_the_default_policy_has_nothing_set() -> None:
    assert "set:" not in Policy().explain()


def test_the_marks_are_those_in_force() -> None:
    policy = Policy()
    text = policy.explain(32_000)
    assert "window: 32,000 tokens" in text
    assert f"a prompt may have {policy.room(32_000):,} tokens" in text
    assert policy.evict is not None
    assert policy.clear is not None
    assert policy.compact is not None
    kept = ", ".join(f"{policy.evict.tokens_kept(n, 32_000):,} of {n:,}" for n in (5_000, 20_000))
    assert f"; {kept} tokens are kept" in text
    long = int(text.split("tool results over ")[1].split(" ")[0].replace(",", ""))
    assert policy.evict.trips(long + 1, 32_000)
    assert not policy.evict.trips(long, 32_000)
    assert f"clear: above {policy.room(32_000):,} tokens" in text
    assert f"{policy.clear.least(32_000):,} tokens at least, or not at all" in text
    assert f"the newest {policy.clear.keep} results stay" in text
    record = int(policy.compact.budget * 32_000)
    assert f"the newest {policy.compact.keep_turns} replies stay, a record of {record:,}" in text
    assert "warnings at 22,400, 27,200, 30,400 tokens" in text


def test_an_unknown_window_is_no_number() -> None:
    text = Policy().explain()
    assert "window: as the server says" in text
    assert "evict: tool results over 2,000 tokens; 1,000 of 5,000, 1,000 of 20,000" in text
    assert "% of the window" in text


def test_the_policys_own_window_is_taken_unless_another_is_asked_for() -> None:
    assert "window: 8,000 tokens" in Policy(window=8_000).explain()
    assert "window: 9,000 tokens" in Policy(window=8_000).explain(9_000)


@pytest.mark.parametrize("stage", ["evict", "clear", "compact"])
def test_what_is_off_is_off(stage: str) -> None:
    off: dict[str, Any] = {stage: None}
    assert f"{stage}: off" in Policy(**off).explain(8_000).split("\n")


@pytest.mark.parametrize("mode", ["observe", "safe"])
def test_what_is_not_done_is_not_claimed(mode: Any) -> None:
    assert "nothing below is done" in Policy(mode=mode).explain(8_000)


def test_excluded_tools_and_the_price_are_named() -> None:
    text = Policy(clear=Clear(exclude_tools=("cat", "ls"), carry_cost=0.2)).explain(8_000)
    assert "long arguments of old calls are cleared too" in text
    assert "the results of cat, ls stay in any case" in text
    assert "a cached token costs 0.2 of an uncached one each turn" in text
    assert "clear by price: off" in Policy(clear=Clear(carry_cost=0)).explain(8_000)


def test_the_tool_of_recall_is_named_only_where_the_model_has_it() -> None:
    assert "kvagent_recall" not in Policy().explain(8_000)
    stays = "; the results of kvagent_recall stay in any case"
    assert stays in Policy(recall=Recall()).explain(8_000)
