"""What holds for every text and every budget?"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import Shortened, shorten
from kvagent.shorten.result import count_lines

ODD = "\r\t \x1b[31m\x0b\u2028\u200d\ufe0f\u0301\ud83d\U0001f468\U0001f3fd漢字אب…\\\"'{}[]()<>=:;,/._-"
WORDS = [
    "the", "request", "failed", "ERROR", "warning:", "src/app/main.py:12", "ValueError:", "0x1f",
    "deadbeef01", "https://example.org/a?b=c", "user_name", "a.b.c", "4711", "tests/t.py::test_x",
    "exit status 2", "2026-01-02T03:04:05Z", "\x1b[1mbold\x1b[0m", "50%\r60%\r", "👩‍👩‍👧", "日本語",
]  # fmt: skip

lines = st.one_of(
    st.text(st.sampled_from(ODD), max_size=40),
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.text(max_size=30),
    st.builds(lambda part, times: part * times, st.sampled_from(WORDS), st.integers(10, 50)),
)
texts = st.builds(
    lambda parts, end, last: (
        end.join(line for part, times in parts for line in [part] * times) + last
    ),
    st.lists(st.tuples(lines, st.sampled_from([1, 1, 1, 1, 2, 9])), max_size=25),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n"]),
)
budgets = st.one_of(st.integers(0, 200), st.integers(200, 1500))
handles = st.sampled_from([None, "r17ab3c"])


def shortened_at_all(text: str, result: Shortened) -> bool:
    return result.text != text


@settings(max_examples=300, deadline=None)
@given(texts, budgets, handles)
def test_within_the_budget_and_never_longer(text: str, budget: int, handle: str | None) -> None:
    result = shorten(text, budget, handle=handle)
    assert len(result.text) <= min(len(text), budget)


@settings(max_examples=300, deadline=None)
@given(texts, budgets, handles)
def test_counts_add_up_to_the_source(text: str, budget: int, handle: str | None) -> None:
    result = shorten(text, budget, handle=handle)
    total = count_lines(text) if result.unit == "lines" else len(text)
    assert result.kept + result.dropped == total
    assert result.kept >= 0
    assert result.dropped >= 0
    if result.lossless:
        assert result.dropped == 0


@settings(max_examples=300, deadline=None)
@given(texts, budgets, handles)
def test_idempotent(text: str, budget: int, handle: str | None) -> None:
    once = shorten(text, budget, handle=handle).text
    assert shorten(once, budget, handle=handle).text == once


@settings(deadline=None)
@given(texts, budgets, budgets)
def test_what_was_shortened_is_not_shortened_again(text: str, budget: int, smaller: int) -> None:
    once = shorten(text, budget)
    if shortened_at_all(text, once) and once.text.startswith("[… "):
        assert shorten(once.text, smaller).text == once.text


@settings(deadline=None)
@given(texts, budgets)
def test_every_change_is_announced(text: str, budget: int) -> None:
    result = shorten(text, budget, handle="r1")
    if shortened_at_all(text, result) and budget >= 80:
        first = result.text.split("\n")[0]
        assert first.startswith("[kvagent: ")
        assert first.endswith("kept as r1]")


@settings(deadline=None)
@given(texts, budgets)
def test_it_can_be_sent(text: str, budget: int) -> None:
    """No code point is torn: what was valid UTF-8 before is so afterwards."""
    valid = text.encode("utf-8", "replace").decode()
    shorten(valid, budget).text.encode()


@settings(deadline=None)
@given(texts, budgets)
def test_the_same_in_a_second_run(text: str, budget: int) -> None:
    assert shorten(text, budget) == shorten(text, budget)


SCRIPT = """
import hashlib
from kvagent.shorten import shorten
text = "".join(f"step {i} of user_{i % 91} in src/a{i % 53}/b.py:{i} took {i * i} ms\\n" for i in range(900))
print(hashlib.sha256(shorten(text, 5000, handle="r1").text.encode()).hexdigest())
"""


def test_the_same_in_other_processes() -> None:
    """Sets of strings have another order in each of them."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert len(digests) == 1
    assert len(digests.pop()) == len(hashlib.sha256().hexdigest())
