"""What of a document still stands when it was shortened?"""

from __future__ import annotations

import pytest

from kvagent.shorten import markdown, shorten
from kvagent.shorten.result import Shortened


def document(sections: int = 40) -> list[str]:
    lines = ["# The guide", "", "How all of this is meant.", ""]
    for i in range(sections):
        lines += [
            f"## Section {i}",
            "",
            f"What section {i} is about. It goes on and on about that for a while, as such texts do.",
            "And it goes on a line further, without any need.",
            "",
            f"- first of {i}",
            f"- second of {i}",
            f"- third of {i}",
            "",
            "| name | value |",
            "|------|-------|",
            f"| size | {i} |",
            "",
            "```sh",
            "# no heading but a comment",
            f"run --part {i}",
            "```",
            "",
        ]
    return lines


def shortened(text: str, budget: int, source: str | None = "Read docs/guide.md") -> Shortened:
    result = markdown.shorten(text, budget, handle="r1", source=source)
    assert result is not None
    assert len(result.text) <= budget
    assert result.kept + result.dropped == text.count("\n") + (not text.endswith("\n"))
    return result


def test_all_headings_while_their_share_lasts() -> None:
    shown = shortened("\n".join(document(20)), 5000).text.split("\n")
    assert "# The guide" in shown
    assert all(f"## Section {i}" in shown for i in range(20))


def test_how_a_section_begins_a_lists_first_item_and_a_tables_head() -> None:
    shown = shortened("\n".join(document(10)), 4000).text.split("\n")
    assert any(line.startswith("What section 0 is about.") for line in shown)
    assert "- first of 0" in shown
    assert "| name | value |" in shown


def test_a_comment_in_a_code_block_is_no_heading() -> None:
    headings = markdown.outline_wishes(document(1))[0].pieces
    assert list(headings) == [0, 4]


def test_outer_headings_come_first() -> None:
    lines = ["### deep", "text", "# top", "text", "## middle"]
    assert list(markdown.outline_wishes(lines)[0].pieces) == [2, 4, 0]


def test_with_the_numbers_of_its_lines() -> None:
    lines = document()
    text = "".join(f"{number:6d}→{line}\n" for number, line in enumerate(lines, 1))
    shown = shortened(text, 4000).text.split("\n")
    assert "1→# The guide" in shown
    assert all(lines[int(line.split("→")[0]) - 1] in line for line in shown[1:-1])


def test_recognised_by_its_headings() -> None:
    text = "\n".join(document())
    assert markdown.shorten(text, 2000) is not None
    assert shorten(text, 2000, source="Task explore") == markdown.shorten(text, 2000)


@pytest.mark.parametrize(
    "text",
    [
        "no heading at all, only words\n" * 100,
        "## one\ntext\n" + "text\n" * 100,
        "#include <a.h>\n#define X\n" * 50,
    ],
)
def test_what_is_no_document(text: str) -> None:
    assert markdown.shorten(text, 100) is None


def test_the_comments_of_a_program_are_no_headings() -> None:
    text = "## part\ndef f():\n    return 1\n" * 50
    assert markdown.shorten(text, 200, source="read a.py") is None
