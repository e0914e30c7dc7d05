"""What holds for every text with a structure, and for those that only look like one?"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import blob, hits, lossless, shorten, table
from kvagent.shorten import json as json_shortener
from kvagent.shorten import listing as listing_shortener
from kvagent.shorten.marker import is_marked

MODULES = {
    "json": json_shortener, "blob": blob, "hits": hits, "listing": listing_shortener, "table": table,
}  # fmt: skip
SOURCES = {"json": "curl", "blob": None, "hits": "rg -n x", "listing": "find .", "table": "a.csv"}

LINES = {
    "json": [
        '{"id": 1, "name": "a", "n": 1.50}', '{"id": 2, "name": null}', '{"id": "03"}', "[1, 2, 3]",
        '{"a": {"b": {"c": [1, {"d": ""}]}}}', "{}", "[]", '{"id": 4, "text": "' + "long " * 60 + '"}',
        '{"a": 1, "a": 2}', '{"x": "\\ud83d"}', "{", '"', "not json", "[… 3-7]",
    ],
    "blob": [
        "data:image/png;base64," + "iVBORw0KGgoAbCd3f+/" * 40, "Qm9ZxY7w+/" * 9, "deadBEEF01" * 50,
        "eyJ" + "aB3" * 200 + "." + "xY7" * 120, "https://a.b/c?sig=" + "aB3" * 200, "a line", "",
    ],
    "hits": [
        "src/a.py:12:import os", "src/a.py:13:", "src/a.py-14-context", "--", "C:\\w\\b.cs:7:var x;",
        "my-2 file.md:3:text: 12:34", "2026-09-02 14:30:00 started", "src/b.js:1:" + "x()" * 200,
        "Makefile:3:all:", "src/c.rs", "12:fn main()", "13-}", "", "3 matches", "\ud83d:1:x.py:2:y",
    ],
    "listing": [
        "src/a.py", "src/b/c.py", "src/b", "./d e/f.md", "Makefile", "./x:", "├── a", "│   └── b.txt",
        "-rw-r--r-- 1 me us 12 Jan  2 2024 f.txt", "drwxr-xr-x 2 me us 4096 Nov 30 10:00 sub", "total 8",
        "a/" * 30 + "z", "", "2 directories, 3 files", "C:\\w\\x.cs", "a sentence of/some words", "\ud83d/x",
    ],
    "table": [
        "id,name,city", "1,Ann,Oslo", "2,Bob,Rome", '3,"a, b",Rome', '4,"two', 'lines",Rome', "5,x", "6,y,z,z",
        "a\tb\tc", "1\t2\t3", "| id | name |", "|----|------|", "| 1  | Ann  |", "+----+------+", "(3 rows)", "",
        "7," + "y" * 900 + ",Rome",
    ],
}  # fmt: skip

types = st.sampled_from(sorted(MODULES))
budgets = st.one_of(st.integers(-1, 250), st.integers(200, 1500))


@st.composite
def texts(draw: st.DrawFn) -> str:
    kind = draw(types)
    line = st.sampled_from(LINES[kind])
    if draw(st.booleans()):
        other = st.one_of(st.sampled_from(LINES[draw(types)]), st.text(max_size=20))
        line = st.one_of(line, line, line, other)
    lines = draw(st.lists(line, max_size=25)) * draw(st.sampled_from([1, 3, 9]))
    return draw(st.sampled_from(["\n", "\n", "\r\n"])).join(lines) + draw(
        st.sampled_from(["", "\n"])
    )


@settings(max_examples=250, deadline=None)
@given(texts(), budgets, types, st.sampled_from([None, "r17ab3c"]))
def test_never_longer_marked_and_left_alone_the_second_time(
    text: str, budget: int, kind: str, handle: str | None
) -> None:
    source = SOURCES[kind]
    result = shorten(text, budget, handle=handle, source=source)
    assert len(result.text) <= min(len(text), max(0, budget)) or result.text == text
    assert result.kept >= 0
    assert result.dropped >= 0
    if result.lossless:
        assert result.dropped == 0
    if result.text != text and budget >= 120:
        assert is_marked(result.text)
        assert shorten(result.text, budget // 2, source=source).text == result.text
    assert shorten(text, budget, handle=handle, source=source) == result
    whole = lossless(text, handle=handle, source=source)
    if whole is not None:
        assert len(whole.text) <= 3 / 4 * len(text)


@settings(max_examples=250, deadline=None)
@given(texts(), st.integers(200, 1500), types)
def test_every_type_by_itself(text: str, budget: int, kind: str) -> None:
    """What a shortener takes does not depend on the budget, nor does the size that it counts."""
    sizes = set()
    for room in (budget, 400, 10**6):
        result = MODULES[kind].shorten(text, room, handle="r1", source=SOURCES[kind])
        if result is not None and result.unit not in ("lines", "characters"):
            sizes.add((result.unit, result.kept + result.dropped))
    assert len({unit for unit, _ in sizes}) <= 1 or kind == "json"
    assert len({size for _, size in sizes}) <= 1 or kind == "json"


SCRIPT = """
import hashlib, json
from kvagent.shorten import lossless, shorten
texts = [
    json.dumps([{"id": n, "kind": f"k{n % 7}", "path": f"src/a{n % 53}/b.py"} for n in range(400)]),
    json.dumps({f"key{n}": {"text": f"word{n} " * 90} for n in range(15)}),
    "".join(f"src/a{n % 53}/b.py:{n}:user_{n % 91} = {n * n}\\n" for n in range(900)),
    "".join(f"src/a{n % 53}/b{n}.py\\n" for n in range(900)),
    "id,city,n\\n" + "".join(f"{n},c{n % 9},{n * n}\\n" for n in range(900)),
]
said = [shorten(text, 2500, handle="r1").text for text in texts]
said += [str(lossless(text)) for text in texts]
print(hashlib.sha256("\\0".join(said).encode()).hexdigest())
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


ROWS = [f"name_{n:04}" for n in range(300)]
NAMES = {
    "json": "[" + ",".join(f'"{row}"' for row in ROWS) + "]",
    "hits": "".join(f"src/a.py:{n}:{row}\n" for n, row in enumerate(ROWS)),
    "table": "id,name\n" + "".join(f"x,{row}\ny,{row}\n" for row in ROWS),
}


@pytest.mark.parametrize("kind", NAMES)
def test_what_stands_elsewhere_gives_way(kind: str) -> None:
    """Rows that tell nothing new are not taken for what they tell."""
    known = frozenset(ROWS[:200])
    shown = []
    for other in (frozenset[str](), known):
        result = MODULES[kind].shorten(NAMES[kind], 1500, source=SOURCES[kind], known=other)
        assert result is not None
        shown.append(sum(row in result.text for row in ROWS[200:]))
    assert shown[1] > shown[0]
