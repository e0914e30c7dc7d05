"""Which names of a list of files still stand, and what is told of the others?"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import listing, lossless, shorten

PATHS = [
    folder + name
    for folder in ("", "src/", "src/app/", "src/app/deep/er/", "docs/", "./x-1/", "/abs/y/")
    for name in ("a.py", "b.py", "Makefile", "read me.md", "c-2.test.ts", ".env", "日本.txt")
    if folder or " " not in name
]
path_lines = st.sets(st.sampled_from(PATHS), min_size=8).map(sorted)


def unfolded(text: str) -> list[str]:
    """The paths of a folded form."""
    paths: list[str] = []
    folder = ""
    for line in text.split("\n")[1:]:
        if line.startswith(" "):
            known = line.removeprefix(" ")
            found = [known] if known == "read me.md" else known.split(" ")
            paths += [
                folder.removeprefix("./") + name if folder == "./" else folder + name
                for name in found
            ]
        elif line.endswith("/"):
            folder = line
        else:
            paths.append(line)
    return paths


@settings(max_examples=150, deadline=None)
@given(path_lines)
def test_folded_by_folder_nothing_is_lost(paths: list[str]) -> None:
    whole = listing.shorten("\n".join(paths), 10**6, source="bash find .")
    if whole is None:  # too few of them look like paths
        return
    assert (whole.kept, whole.dropped, whole.lossless) == (len(paths), 0, True)
    assert sorted(unfolded(whole.text)) == sorted(paths)


@settings(max_examples=150, deadline=None)
@given(path_lines, st.integers(200, 700))
def test_counts_are_honest(paths: list[str], budget: int) -> None:
    text = "\n".join(paths)
    shortened = listing.shorten(text, budget, handle="r1", source="find .")
    if shortened is None or shortened.lossless:
        return
    assert shortened.kept + shortened.dropped == len(paths)
    assert len(shortened.text) <= budget
    words = " ".join(shortened.text.split("\n")[1:])
    assert sum(path.rpartition("/")[2] in words for path in paths) >= shortened.kept
    assert shorten(shortened.text, budget).text == shortened.text
    assert shortened == listing.shorten(text, budget, handle="r1", source="find .")


def project(folders: int, files: int) -> str:
    return "".join(
        f"src/package_{d}/module_{f}.{'py' if f % 5 else 'json'}\n"
        for d in range(folders)
        for f in range(files)
    )


def test_paths_stand_in_full_as_far_as_there_is_room() -> None:
    text = project(25, 8)
    folded = lossless(text, source="find src")
    assert folded is not None
    for budget in (len(folded.text), 4000, 5000):
        shortened = shorten(text, budget, source="find src")
        in_full = [path for path in text.split() if path in shortened.text]
        assert (len(in_full) >= budget // 60) == (budget > len(folded.text))
        assert sorted(unfolded(shortened.text)) == sorted(text.split())


def test_folders_stay_with_counts_by_ending() -> None:
    shortened = shorten(project(25, 40), 2500, source="find src -type f")
    assert shortened.unit == "entries"
    assert shortened.kept + shortened.dropped == 1000
    for d in range(25):
        assert f"src/package_{d}/ (40: 32 .py, 8 .json)" in shortened.text
    assert len(re.findall(r"module_\d+", shortened.text)) == shortened.kept


def test_folders_that_do_not_fit_are_told_by_those_above() -> None:
    text = "".join(f"a/b{n % 7}/deep_{n}/deeper/file_{n}.rs\n" for n in range(900))
    shortened = shorten(text, 900)
    assert shortened.kept + shortened.dropped == 900
    for n in range(7):
        assert re.search(
            rf"^a/b{n}/ and 1\d\d below \(1\d\d: 1\d\d \.rs\)$", shortened.text, re.MULTILINE
        )


def test_a_folder_with_a_line_of_its_own_counts() -> None:
    lines = ["src", "src/a"] + [f"src/a/f{n}.py" for n in range(20)]
    whole = lossless("\n".join(lines), source="find src")
    assert whole is not None
    assert whole.kept == 22
    assert whole.text.split("\n")[1:3] == ["src/", "src/a/"]


def test_names_without_folders_are_only_taken_from_a_listing() -> None:
    text = "".join(f"word{n}\n" for n in range(400))
    assert listing.shorten(text, 500) is None
    shortened = listing.shorten(text, 500, source="bash ls")
    assert shortened is not None
    assert "./ (400: 400 others)" in shortened.text


def test_ls_recursive() -> None:
    text = "\n\n".join(f"./pkg{d}:\n" + "\n".join(f"f{n}.go" for n in range(30)) for d in range(9))
    shortened = shorten(text, 700, source="bash ls -R")
    assert shortened.kept + shortened.dropped == 270
    for d in range(9):
        assert f"./pkg{d}/ (30: 30 .go)" in shortened.text


TREE = """\
project
├── README.md
├── src
│   ├── app
│   │   ├── main.py
│   │   └── views.py
│   └── lib
│       ├── a.py
│       └── b.py
└── tests
    └── test_app.py

4 directories, 6 files
"""


def test_a_drawn_tree() -> None:
    whole = listing.shorten(TREE, 200)
    assert whole is not None
    assert (whole.kept, whole.unit) == (10, "entries")
    assert whole.text.split("\n")[1:] == [
        "project/README.md", "project/src/", "project/src/app/", " main.py views.py",
        "project/src/lib/", " a.py b.py", "project/tests/test_app.py", "4 directories, 6 files",
    ]  # fmt: skip


def test_a_large_tree() -> None:
    branches = "".join(
        f"├── folder_{d}\n" + "".join(f"│   ├── file_{d}_{n}.txt\n" for n in range(30))
        for d in range(20)
    )
    shortened = shorten(f".\n{branches}\n20 directories, 600 files\n", 1500, source="tree")
    assert shortened.kept + shortened.dropped == 620
    for d in range(20):
        assert f"./folder_{d}/ (30: 30 .txt)" in shortened.text
    assert shortened.text.endswith("20 directories, 600 files")


def long_listing(count: int) -> str:
    lines = [f"total {count}"]
    for n in range(count):
        size = 99_000_000 if n == 150 else 1000 + n
        date = "Nov 30 10:15" if n == 90 else "Jan  2  2024"
        kind = "d" if n == 210 else "-"
        lines.append(f"{kind}rw-r--r--  1 root     wheel  {size:>12} {date} some_file_{n}.dat")
    return "\n".join(lines) + "\n"


def test_long_listings_keep_folders_the_newest_and_the_largest() -> None:
    shortened = shorten(long_listing(300), 1500, source="ls -l")
    assert shortened.unit == "entries"
    assert shortened.kept + shortened.dropped == 300
    for n in (90, 150, 210):
        assert f"some_file_{n}.dat" in shortened.text
    assert "all of root wheel" in shortened.text
    assert sum("rw-r--r-- " in line for line in shortened.text.split("\n")) == shortened.kept


def test_a_long_listing_of_many_folders() -> None:
    entries = long_listing(40).partition("\n")[2]
    text = "\n".join(f"./dir_{d}:\ntotal 40\n{entries}" for d in range(8))
    shortened = shorten(text, 1500, source="ls -lR")
    assert shortened.unit == "entries"
    assert shortened.kept + shortened.dropped == 320
    assert "./dir_0/some_file_0.dat" in shortened.text
    assert "./dir_7/some_file_39.dat" in shortened.text
    assert listing.lossless(text) is None  # the lines of the folders are left out


def test_a_long_listing_without_its_padding() -> None:
    whole = listing.lossless(long_listing(60))
    assert whole is not None
    assert (whole.kept, whole.dropped) == (60, 0)
    assert "-rw-r--r-- 1 1003 Jan 2 2024 some_file_3.dat" in whole.text.split("\n")


@pytest.mark.parametrize(
    "text",
    [
        "".join(
            f"The file src/a{n}.py was changed by the second commit of the day.\n"
            for n in range(60)
        ),
        "".join(f"and/or {n} either/or what comes next here now\n" for n in range(60)),
        "".join(f"src/a{n}.py:12:import os\n" for n in range(60)),
        "".join(f" M src/a{n}.py | 12 ++--\n" for n in range(60)),
        "".join(f"https://example.org/{n}?a=b,c\n" for n in range(60)),
        "".join(f"const a{n} = require('./b/c');\n" for n in range(60)),
        "/" * 5000,
        "a/" * 5000,
        ("a/" * 400 + "\n") * 20,
        "├── \n" * 100,
        "│   " * 2000,
        "\n" * 5000,
    ],
)
def test_other_texts_and_strange_ones(text: str) -> None:
    for source in (None, "cat notes"):
        result = listing.shorten(text, 400, source=source)
        assert result is None or len(result.text) <= len(text)
    assert len(shorten(text, 400).text) <= 400
    if text[0] not in "/a├│\n":
        assert listing.shorten(text, 400) is None
