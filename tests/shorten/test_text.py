"""What of a text of unknown type still stands when it was shortened?"""

from __future__ import annotations

import re

import pytest

from kvagent.shorten.result import Shortened, unchanged
from kvagent.shorten.text import shorten


def log(lines: int) -> list[str]:
    """Lines as a service writes them: all alike, each with ids of its own."""
    return [
        f"2026-01-02T15:{i // 60 % 60:02d}:{i % 60:02d}Z INFO handled request id={i * 7919:08x} "
        f"path=/api/v1/items/{i} in {i % 97}ms"
        for i in range(lines)
    ]


def joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


class TestUnchanged:
    @pytest.mark.parametrize("text", ["", "one", "one\n", "one\ntwo", "\n\n\n", "a\r\nb\r\n"])
    def test_text_that_fits(self, text: str) -> None:
        assert shorten(text, len(text)) == unchanged(text)
        assert shorten(text, 10_000) == unchanged(text)

    def test_lines_are_counted_as_an_editor_does(self) -> None:
        counts = {"": 0, "a": 1, "a\n": 1, "a\nb": 2, "\n\n": 2, "a\rb\u2028c": 1}
        assert {text: unchanged(text).kept for text in counts} == counts


class TestMarker:
    def test_first_line_says_how_much_and_how_to_get_all(self) -> None:
        shortened = shorten(joined(log(612)), 4000, handle="r17ab")
        assert shortened.unit == "lines"
        assert shortened.kept + shortened.dropped == 612
        assert shortened.text.split("\n")[0] == (
            f"[kvagent: {shortened.kept} of 612 lines shown; all of it is kept as r17ab]"
        )

    def test_without_a_handle_it_promises_nothing(self) -> None:
        shortened = shorten(joined(log(612)), 4000)
        assert shortened.text.startswith(f"[… {shortened.kept} of 612 lines shown]\n")

    def test_gaps_name_the_lines_of_the_source(self) -> None:
        lines = log(300)
        shown = shorten(joined(lines), 4000).text.split("\n")
        gaps = [(i, re.fullmatch(r"\[… (\d+)-(\d+)\]", line)) for i, line in enumerate(shown)]
        found = [(i, int(gap[1]), int(gap[2])) for i, gap in gaps if gap]
        assert found
        for at, first, last in found:
            assert shown[at - 1] == lines[first - 2]
            assert shown[at + 1] == lines[last]

    def test_shown_lines_are_those_that_count(self) -> None:
        lines = log(300)
        shortened = shorten(joined(lines), 4000)
        assert shortened.kept == len(set(shortened.text.split("\n")) & set(lines))


class TestWhatStands:
    def test_first_and_last_line(self) -> None:
        lines = ["$ make all", *log(2000), "make: *** [Makefile:12: all] Error 2"]
        shown = shorten(joined(lines), 2000).text.split("\n")
        assert lines[0] in shown
        assert lines[-1] in shown

    @pytest.mark.parametrize(
        "report",
        [
            "2026-01-02T15:12:09Z ERROR could not reach the database",
            "error: linker `cc` not found",
            "npm ERR! fatal: not a git repository",
            "Traceback (most recent call last):",
            "ValueError: x must be positive",
            "java.lang.IllegalStateException: closed",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
            '{"level":"error","msg":"no space left"}',
            "warning: unused variable",
            "Process exited with code 3",
            "thread 'main' panicked at src/main.rs:4:5",
        ],
    )
    def test_a_line_that_reports_an_error(self, report: str) -> None:
        lines = log(2000)
        lines.insert(1234, report)
        shown = shorten(joined(lines), 3000).text.split("\n")
        assert report in shown

    def test_first_and_last_error_among_many(self) -> None:
        lines = log(3000)
        for i in range(500, 2500):
            lines[i] = f"ERROR attempt {i} of job-{i} failed with code={i}: {'x' * (i % 50)}"
        shown = shorten(joined(lines), 3000).text.split("\n")
        assert lines[500] in shown
        assert lines[2499] in shown

    def test_what_stands_around_an_error(self) -> None:
        lines = log(2000)
        lines[1000:1000] = [
            "compiling the parser",
            "error: unexpected token",
            "  near: )",
            "  col: 7",
        ]
        shown = shorten(joined(lines), 3000).text
        assert "\n".join(lines[1000:1004]) in shown

    @pytest.mark.parametrize("at", [0.05, 0.3, 0.5, 0.9, 0.999])
    def test_a_needle_anywhere_in_a_log(self, at: float) -> None:
        lines = log(5000)
        needle = "the vault opens with KESTREL-77 on weekdays"
        lines.insert(int(at * len(lines)), needle)
        assert needle in shorten(joined(lines), 8000).text.split("\n")

    def test_a_needle_at_the_very_end(self) -> None:
        assert shorten(joined(log(5000)) + "KESTREL-77", 1000).text.count("KESTREL-77") == 1

    def test_identifiers_of_the_rest_are_named_at_the_end(self) -> None:
        words = "so the wind went over the hill and nobody saw where it came from or why it did so"
        lines = [f"{words} {i % 10}" if i % 9 else f"{words} {words}" for i in range(400)]
        paths = [f"src/part_{chr(97 + i)}/module_{chr(97 + i)}.py" for i in range(12)]
        for i, path in enumerate(paths):
            lines[60 + 20 * i] += f" {words} {words} {path} {words} {words}"
        shown = shorten(joined(lines), 2400).text
        last = shown.split("\n")[-1]
        assert last.startswith("[among the rest: ")
        assert len(last) <= 600
        assert all(shown.count(path) == 1 for path in paths)


class TestRepeats:
    def test_a_run_of_equal_lines_is_folded(self) -> None:
        text = "start\n" + "waiting for the lock\n" * 400 + "done\n"
        assert shorten(text, 500, handle="r1") == Shortened(
            "[kvagent: all 402 lines shown, repeats folded; all of it is kept as r1]\n"
            "start\nwaiting for the lock\n… (repeated 400 times)\ndone",
            kept=402,
            dropped=0,
            unit="lines",
            lossless=True,
        )

    def test_a_folded_run_counts_in_full_among_other_lines(self) -> None:
        lines = [*log(200), *["retrying the very same thing"] * 50, *log(200)]
        lines[200:200] = ["fatal: about to retry"]
        shortened = shorten(joined(lines), 3000)
        assert "retrying the very same thing\n… (repeated 50 times)\n" in shortened.text
        shown = set(shortened.text.split("\n")) & set(lines)
        assert shortened.kept >= len(shown) + 49
        assert shortened.kept + shortened.dropped == len(lines)

    def test_no_folding_that_saves_nothing(self) -> None:
        text = "a\n\n\n\nb\n" * 200
        assert "repeated" not in shorten(text, 600).text


class TestTerminalOutput:
    def test_codes_are_removed_and_it_says_so(self) -> None:
        text = "".join(f"\x1b[32mok\x1b[0m test number {i}\n" for i in range(30))
        shortened = shorten(text, len(text) - 100)
        assert "\x1b" not in shortened.text
        assert shortened.text.startswith("[… all 30 lines shown, terminal codes removed]\n")
        assert (shortened.kept, shortened.dropped, shortened.lossless) == (30, 0, False)

    def test_progress_leaves_its_last_state(self) -> None:
        states = "\r".join(f"Downloading {i}%" for i in range(101))
        text = f"begin\n{states}\nend\n"
        assert shorten(text, 200).text.split("\n")[1:] == ["begin", "Downloading 100%", "end"]

    def test_codes_stay_where_the_text_fits(self) -> None:
        text = "\x1b[32mok\x1b[0m\r\n"
        assert shorten(text, 100).text == text


class TestLongLines:
    def test_one_line_is_measured_in_characters(self) -> None:
        text = "[" + ",".join(f'{{"id":{i},"name":"user_{i * 37}"}}' for i in range(2000)) + "]"
        shortened = shorten(text, 2000, handle="r1")
        assert shortened.unit == "characters"
        assert shortened.kept + shortened.dropped == len(text)
        first, rest = shortened.text.split("\n", 1)
        assert first == (
            f"[kvagent: {shortened.kept} of {len(text)} characters shown; all of it is kept as r1]"
        )
        assert rest.startswith('[{"id":0,')
        gaps = re.findall(r"\[… (\d+) characters …\]", rest)
        assert sum(map(int, gaps)) == shortened.dropped

    def test_it_is_cut_behind_a_closing_mark(self) -> None:
        text = ",".join(f'{{"id":{i},"name":"user_{i * 37}"}}' for i in range(2000))
        before_gap = re.findall(r"(.)\[… \d+ characters …\]", shorten(text, 2000).text)
        assert before_gap
        assert set(before_gap) <= set(",}")

    def test_no_visible_character_is_torn(self) -> None:
        family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
        text = family * 500 + "e\u0301" * 3000
        parts = re.split(r"\[… \d+ characters …\]", shorten(text, 1000).text.split("\n")[1])
        assert len(parts) > 1
        for part in parts:
            assert re.fullmatch(f"(?:{family})*(?:e\u0301)*", part)

    def test_base64_is_cut_although_it_has_no_borders(self) -> None:
        shortened = shorten("QUJD" * 50_000, 1000)
        assert 800 < len(shortened.text) <= 1000
        assert shortened.unit == "characters"

    def test_a_long_line_among_others_is_shown_in_part_and_counts_as_dropped(self) -> None:
        lines = log(60)
        lines[30] = "payload " + " ".join(f"field_{i}" for i in range(300))
        shortened = shorten(joined(lines), 5000)
        assert shortened.unit == "lines"
        assert shortened.kept == len(set(shortened.text.split("\n")) & set(lines))
        assert shortened.kept + shortened.dropped == 60


class TestSmallBudgets:
    def test_never_more_than_the_budget(self) -> None:
        text = joined(log(100))
        for budget in range(-5, 200):
            shortened = shorten(text, budget, handle="r17ab")
            assert len(shortened.text) <= max(0, budget)
            assert shortened.kept + shortened.dropped == 100

    def test_the_marker_is_the_last_to_go(self) -> None:
        text = joined(log(100))
        assert shorten(text, 70, handle="r1").text == (
            "[kvagent: 0 of 100 lines shown; all of it is kept as r1]"
        )
        assert shorten(text, 40, handle="r1").text == "[… 0 of 100 lines shown]"
        assert shorten(text, 5, handle="r1").text == "…"


class TestCarriageReturns:
    def test_windows_line_ends(self) -> None:
        shortened = shorten("\r\n".join(log(300)) + "\r\n", 3000)
        assert shortened.kept + shortened.dropped == 300
        assert log(1)[0] + "\r\n" in shortened.text

    def test_old_line_ends_are_no_progress(self) -> None:
        text = "\r".join(["alpha", "beta", "gamma", "delta"] * 300)
        assert "alpha\rbeta\rgamma\rdelta" in shorten(text, 1000).text
