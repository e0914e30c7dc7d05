"""Is a shorter form that loses nothing found where there is one, and only there?"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import lossless, shorten
from kvagent.shorten.marker import is_marked

TEXTS = {
    "an array of records": json.dumps([{"id": n, "name": f"u{n}", "on": True} for n in range(90)]),
    "an object": json.dumps({f"k{n}": [n, {"a": [n]}] for n in range(15)}, indent=8),
    "search hits": "".join(f"src/deep/down/module.py:{n}:x = {n}\n" for n in range(90)),
    "a list of files": "".join(f"src/deep/down/below/f{n}.py\n" for n in range(90)),
    "a drawn table": "| id       | name     |\n|----------|----------|\n"
    + "".join(f"| {n:8} | n{n:<7} |\n" for n in range(90)),
    "repeats": "".join(f"waiting for lock {n}\n" * 9 for n in range(20)),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("handle", [None, "r17"])
def test_a_quarter_at_least_is_saved(name: str, handle: str | None) -> None:
    text = TEXTS[name]
    whole = lossless(text, handle=handle)
    assert whole is not None
    assert (whole.dropped, whole.lossless) == (0, True)
    assert len(whole.text) <= len(text) * 3 / 4
    assert whole.text.startswith(f"[… all {whole.kept} " if handle is None else "[kvagent: all ")
    assert whole.text.split("\n")[0].endswith(
        "]" if handle is None else "; all of it is kept as r17]"
    )
    assert lossless(whole.text) is None
    assert shorten(whole.text, 300).text == whole.text
    assert lossless(text, handle=handle) == whole


def test_runs_of_equal_lines() -> None:
    whole = lossless(TEXTS["repeats"])
    assert whole is not None
    assert whole.kept == 180
    assert whole.text.split("\n")[1:3] == ["waiting for lock 0", "… (repeated 9 times)"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a few words",
        "no two lines are alike\n" + "".join(f"line {n}\n" for n in range(90)),
        json.dumps([{"text": f"a long text {n} " * 20} for n in range(9)]),  # little to be saved
        "def f():\n    return 1\n" * 40,
    ],
)
def test_none_where_there_is_none(text: str) -> None:
    assert lossless(text) is None


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(["{", "}", "[", "]", '"a":', "1,", "\n", "a/b.py", ":3:", "|", "\ud800"]),
        max_size=60,
    ),
    st.integers(1, 9),
)
def test_any_text(parts: list[str], times: int) -> None:
    text = "".join(parts) * times
    whole = lossless(text)
    if whole is not None:
        assert whole.lossless
        assert len(whole.text) <= len(text) * 3 / 4
        assert is_marked(whole.text)
