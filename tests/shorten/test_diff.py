"""What of a diff still stands when it was shortened?"""

from __future__ import annotations

from kvagent.shorten import diff, shorten
from kvagent.shorten.result import Shortened


def git_file(name: str, hunks: int = 3, changes: int = 2) -> list[str]:
    lines = [
        f"diff --git a/{name} b/{name}",
        "index 83db48f..bf269f4 100644",
        f"--- a/{name}",
        f"+++ b/{name}",
    ]
    for hunk in range(hunks):
        begin = 100 * hunk + 1
        size = 10 + changes
        lines.append(f"@@ -{begin},{size} +{begin},{size} @@ def part_{hunk}():")
        lines += [f"     before {hunk} {i} of {name}" for i in range(5)]
        for change in range(changes):
            lines.append(f"-    old_{hunk}_{change} = {name!r}")
            lines.append(f"+    new_{hunk}_{change} = {name!r}")
        lines += [f"     behind {hunk} {i} of {name}" for i in range(5)]
    return lines


def shortened(lines: list[str], budget: int) -> Shortened:
    result = diff.shorten("\n".join(lines) + "\n", budget, handle="r1")
    assert result is not None
    assert len(result.text) <= budget
    assert result.kept + result.dropped == len(lines)
    return result


def test_every_change_stands_and_the_nearest_lines_before_those_further_away() -> None:
    lines = [line for i in range(6) for line in git_file(f"src/part_{i}.py")]
    text = shortened(lines, 5000).text
    shown = text.split("\n")
    changes = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert [line for line in shown if line.startswith(("+ ", "- "))] == changes
    assert "index 83db48f" not in text
    assert "before 0 0 of" not in text


def test_how_much_changes_in_each_file() -> None:
    lines = [*git_file("a.py", hunks=3, changes=2), *git_file("b/c.ts", hunks=1, changes=40)]
    shown = shortened(lines, 2000).text.split("\n")
    assert "+++ b/a.py [… +6 -6, 3 hunks]" in shown
    assert "+++ b/b/c.ts [… +40 -40, 1 hunk]" in shown


def test_all_names_although_there_is_no_room_for_their_changes() -> None:
    lines = [line for i in range(40) for line in git_file(f"src/a/part_{i}.py", hunks=4)]
    shown = shortened(lines, 5000).text
    assert all(f"b/src/a/part_{i}.py [… +8 -8, 4 hunks]" in shown for i in range(40))


def test_without_room_for_all_changes_there_is_no_context() -> None:
    lines = git_file("a.py", hunks=60)
    shown = shortened(lines, 2000).text
    assert "before" not in shown
    assert "new_" in shown


def test_a_removed_line_that_looks_like_the_name_of_a_file() -> None:
    lines = [
        "--- a/query.sql",
        "+++ b/query.sql",
        "@@ -1,3 +1,3 @@",
        " select 1;",
        "--- an old comment",
        "+++ an odd line",
        " select 2;",
        *git_file("z.py", hunks=20)[2:],
    ]
    shown = shortened(lines, 1500).text
    assert "+++ b/query.sql [… +1 -1, 1 hunk]" in shown


def test_new_removed_renamed_and_binary_files() -> None:
    lines = [
        "diff --git a/logo.png b/logo.png",
        "new file mode 100644",
        "index 0000000..1111111",
        "Binary files /dev/null and b/logo.png differ",
        "diff --git a/old.py b/new.py",
        "similarity index 100%",
        "rename from old.py",
        "rename to new.py",
        *git_file("src/x.py", hunks=30),
    ]
    shown = shortened(lines, 3000).text.split("\n")
    assert "Binary files /dev/null and b/logo.png differ" in shown
    assert "rename from old.py" in shown


def test_text_above_it_and_colours() -> None:
    lines = ["commit 9fceb02d0ae5", "", "    A message", "", *git_file("src/x.py", hunks=30)]
    coloured = [f"\x1b[32m{line}\x1b[m" if line.startswith("+") else line for line in lines]
    result = shortened(coloured, 3000)
    assert "\x1b" not in result.text
    assert "terminal codes removed" in result.text.split("\n")[0]


def test_what_is_no_diff() -> None:
    assert diff.shorten("--- a\n+++ b\nnothing\n" * 50, 100) is None
    assert diff.shorten("see diff --git a/x b/x\n@@ -1 +1 @@\n" * 50, 100) is None
    prose = "a word about it\n" * 400
    assert diff.shorten(prose + "\n".join(git_file("a.py")), 1000) is None


def test_hunks_that_are_cut_off_or_lie() -> None:
    lines = git_file("a.py", hunks=30)
    shortened(lines[:-3], 1000)
    shortened([line.replace(",12", ",99") for line in lines], 1000)
    lie = "\n".join(line.replace(",12", ",1") for line in lines)
    assert diff.shorten(lie, 1000) is None


def test_it_is_asked_before_those_that_know_less() -> None:
    text = "\n".join(git_file("src/part.py", hunks=40))
    assert shorten(text, 3000, source="bash git diff src/part.py") == diff.shorten(text, 3000)
