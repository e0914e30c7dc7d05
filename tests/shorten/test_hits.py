"""Which hits of a search still stand, and is no file forgotten?"""

from __future__ import annotations

import re
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import hits, lossless, shorten

PATHS = [
    "src/app/main.py",
    "src/app/my-2-file.py",
    "./docs/a b/c.md",
    "C:\\src\\win.cs",
    "Makefile",
    "lib/x/__init__.py",
    "/abs/path/to/mod.rs",
]

hit_lines = st.lists(
    st.tuples(
        st.sampled_from(PATHS),
        st.lists(st.integers(1, 9_999), min_size=1, max_size=9, unique=True),
        st.sampled_from(
            ["return x", "raise ValueError('no')", "", "a: b:12: c", "é 漢字", "y" * 300]
        ),
    ),
    min_size=2,
    max_size=12,
)


def flat(files: list[tuple[str, list[int], str]]) -> str:
    return "".join(
        f"{path}:{line}:{text} {line}\n" for path, lines, text in files for line in sorted(lines)
    )


def ungrouped(text: str) -> list[str]:
    """The lines of a grouped form as the search printed them."""
    lines: list[str] = []
    path = ""
    for line in text.split("\n")[1:]:
        number = re.match(r"\d+([:-])", line)
        if line in PATHS:
            path = line
        elif number is not None:
            lines.append(f"{path}{number[1]}{line}")
        else:
            lines.append(line)
    return lines


@settings(max_examples=150, deadline=None)
@given(hit_lines)
def test_grouped_by_file_nothing_is_lost(files: list[tuple[str, list[int], str]]) -> None:
    text = flat(files)
    if text.count("\n") < 5:
        return
    whole = hits.shorten(text, 10**6, source="rg -n x")
    assert whole is not None
    assert (whole.kept, whole.dropped, whole.lossless) == (text.count("\n"), 0, True)
    assert ungrouped(whole.text) == text.split("\n")[:-1]


@settings(max_examples=150, deadline=None)
@given(hit_lines, st.integers(200, 2000))
def test_counts_are_honest(files: list[tuple[str, list[int], str]], budget: int) -> None:
    text = flat(files)
    shortened = hits.shorten(text, budget, handle="r1", source="grep -rn x")
    if shortened is None or shortened.lossless:
        return
    assert shortened.kept + shortened.dropped == text.count("\n")
    merged = [
        (path, [hit for _, hit in group])
        for path, group in groupby(
            (
                (path, f"{line}:{said} {line}")
                for path, lines, said in files
                for line in sorted(lines)
            ),
            key=lambda pair: pair[0],
        )
    ]
    body = shortened.text.split("\n")
    standing = sum(
        hit in body or f"{path}:{hit}" in body for path, of_file in merged for hit in of_file
    )
    assert standing >= shortened.kept
    assert shorten(shortened.text, budget).text == shortened.text
    assert hits.shorten(text, budget, handle="r1", source="grep -rn x") == shortened


def many(files: int, each: int) -> str:
    return "".join(
        f"src/pkg{f}/module_{f}.py:{10 * n + 3}:    value_{f}_{n} = compute(name_{n})\n"
        for f in range(files)
        for n in range(each)
    )


def test_every_file_is_named_with_its_number_of_hits() -> None:
    shortened = shorten(many(30, 25), 3000)
    assert shortened.unit == "hits"
    assert shortened.kept + shortened.dropped == 750
    for f in range(30):
        assert re.search(
            rf"^src/pkg{f}/module_{f}\.py \[(\d+ of )?25 hits\]$", shortened.text, re.MULTILINE
        )


def test_first_and_last_hit_and_errors_of_a_file_stand() -> None:
    lines = [f"src/big.py:{n}:    step_{n}()" for n in range(1, 400)]
    lines[200] = "src/big.py:201:    error: cannot open the store"
    shortened = shorten("\n".join([*lines, "src/b.py:1:x", "src/b.py:2:y", ""]), 1500)
    body = shortened.text.split("\n")
    for line in ("1:    step_1()", "201:    error: cannot open the store", "399:    step_399()"):
        assert line in body


def test_more_files_than_there_is_room_for_are_counted() -> None:
    text = many(400, 2)
    shortened = shorten(text, 1500)
    more = re.search(r"\[… (\d+) more files with (\d+) hits …\]", shortened.text)
    assert more is not None
    named = len(re.findall(r"^src/pkg\d+/", shortened.text, re.MULTILINE))
    assert named + int(more[1]) == 400
    assert int(more[2]) == 2 * int(more[1])


def test_paths_longer_than_the_room_leave_it_to_others() -> None:
    text = "".join(f"{'deep/' * 40}file{f}.py:{f}:call()\n" for f in range(20))
    assert hits.shorten(text, 210) is None
    assert len(shorten(text, 210, source="rg call").text) <= 210


def test_lines_around_hits_belong_to_their_file() -> None:
    text = "".join(
        f"my-2-dir/my-{n}-file.py-{9}-before\nmy-2-dir/my-{n}-file.py:10:hit {n}\n"
        f"my-2-dir/my-{n}-file.py-11-behind-12-x\n--\n"
        for n in range(12)
    )
    whole = hits.shorten(text, 10**6, source="grep -n -C1 hit")
    assert whole is not None
    assert whole.kept == 12  # lines around a hit are none
    lines = whole.text.split("\n")
    at = lines.index("my-2-dir/my-7-file.py")
    assert lines[at + 1 : at + 5] == ["9-before", "10:hit 7", "11-behind-12-x", "--"]


def test_paths_of_another_system() -> None:
    text = "".join(f"C:\\work\\src\\File{n % 3}.cs:{n}:var x = {n};\n" for n in range(60))
    whole = hits.shorten("".join(sorted(text.splitlines(keepends=True))), 10**6)
    assert whole is not None
    assert whole.text.split("\n").count("C:\\work\\src\\File1.cs") == 1


def test_a_path_may_hold_blanks_and_dashes() -> None:
    text = "".join(f"my docs/read-me 2.md:{n}:text\n" for n in range(20))
    whole = lossless(text)
    assert whole is not None
    assert whole.text.split("\n")[1:3] == ["my docs/read-me 2.md", "0:text"]


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"2026-09-02 14:30:{n:02} request {n} served\n" for n in range(60)),
        "".join(f"2026-09-02T14:30:{n:02}Z INFO request {n}\n" for n in range(60)),
        "".join(f"[2026-09-02 14:30:{n:02}] x/y: request {n}\n" for n in range(60)),
        "".join(f"14:30:{n:02} up 3 days, load 0.{n}\n" for n in range(60)),
        "".join(f"127.0.0.1:{8000 + n}: connected to node {n}\n" for n in range(60)),
        "".join(f"key {n}: value: {n}: more\n" for n in range(60)),
        "".join(f"INFO 12:{n:02}: saved\n" for n in range(60)),
        "".join(f"http://host:{n}/x is up\n" for n in range(60)),
    ],
)
def test_clock_text_and_addresses_are_no_paths(text: str) -> None:
    assert hits.shorten(text, 700) is None
    assert hits.lossless(text, source="grep -n x log") is None


def test_hits_under_headings() -> None:
    text = "\n\n".join(
        f"src/file{f}.py\n" + "\n".join(f"{n}:    call_{f}_{n}()" for n in range(1, 60))
        for f in range(8)
    )
    assert lossless(text) is None  # it is grouped already
    shortened = shorten(text, 2000, source="rg --heading -n call")
    assert shortened.unit == "hits"
    assert shortened.kept + shortened.dropped == 8 * 59
    for f in range(8):
        assert f"src/file{f}.py [" in shortened.text


def test_a_long_hit_is_cut_and_not_counted_as_kept() -> None:
    text = many(2, 5) + "dist/app.min.js:1:" + "function(a,b){return a.b}" * 4000 + "\n"
    shortened = shorten(text, 2000)
    assert "1 more cut" in shortened.text.split("\n")[0]
    assert shortened.kept == 10
    assert "dist/app.min.js:1:function" in shortened.text


def test_lines_of_a_tool_around_the_hits_stay() -> None:
    text = "Exit code: 0\nOutput:\n" + many(3, 20) + "60 matches\n"
    whole = lossless(text, source="shell rg")
    assert whole is not None
    lines = whole.text.split("\n")
    assert lines[1:3] == ["Exit code: 0", "Output:"]
    assert lines[-1] == "60 matches"
