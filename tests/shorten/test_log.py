"""What of a program's output still stands when it was shortened?"""

from __future__ import annotations

import re

import pytest

from kvagent.shorten import log, shorten
from kvagent.shorten.result import Shortened


def chatter(count: int, begin: int = 0) -> list[str]:
    return [
        f"2026-01-02T15:{i // 60 % 60:02d}:{i % 60:02d}Z INFO worker={i % 7} stored part {i} of it"
        for i in range(begin, begin + count)
    ]


def shortened(lines: list[str], budget: int = 3000) -> Shortened:
    result = log.shorten("\n".join(lines) + "\n", budget, handle="r1")
    assert result is not None
    assert len(result.text) <= budget
    assert result.kept + result.dropped == len(lines)
    return result


def shown(lines: list[str], budget: int = 3000) -> list[str]:
    return shortened(lines, budget).text.split("\n")


class TestRecognised:
    @pytest.mark.parametrize(
        "text",
        [
            "\n".join(chatter(5)),
            "===== test session starts =====\ncollected 3 items\n",
            "> app@1.0.0 build\n> tsc\n",
            "npm ERR! code ELIFECYCLE\n",
            "   Compiling serde v1.0.1\n",
            "cc -o a a.c\nmake: *** [Makefile:2: a] Error 1\n",
            "src/a.ts(3,4): error TS2304: Cannot find name 'x'.\n",
            "Traceback (most recent call last):\n",
            "Error: x\n    at f (/a/b.js:1:2)\n",
            "\x1b[32mok\x1b[0m\n",
            "Jan  2 15:04:05 host sshd[12]: session opened\n",
        ],
    )
    def test_output(self, text: str) -> None:
        assert log.shorten(text * 30, 200) is not None

    @pytest.mark.parametrize(
        "text",
        [
            "a line of prose that speaks about an error in the plan\n",
            "def f(x):\n    return x\n",
            "key: value\nother: 12:30\n",
        ],
    )
    def test_anything_else(self, text: str) -> None:
        assert log.shorten(text * 100, 200) is None


class TestEnds:
    def test_exit_code_and_last_line_stay(self) -> None:
        lines = [*chatter(2000), "Process exited with code 3", "total time: 12 s"]
        result = shown(lines, 400)
        assert "Process exited with code 3" in result
        assert "total time: 12 s" in result

    def test_exit_code_at_the_beginning(self) -> None:
        lines = ["Wall time: 4.2 s", "Process exited with code 1", "Output:", *chatter(2000)]
        assert "Process exited with code 1" in shown(lines, 500)

    @pytest.mark.parametrize(
        "summary",
        [
            "===== 3 failed, 120 passed, 2 warnings in 12.31s =====",
            "Tests:       1 failed, 30 passed, 31 total",
            "test result: FAILED. 14 passed; 2 failed; 0 ignored",
            "Ran 312 tests in 4.210s",
            "Found 12 errors in 3 files.",
            "make: *** [Makefile:12: all] Error 2",
            "BUILD FAILED in 3s",
            "✖ 7 problems (7 errors, 0 warnings)",
        ],
    )
    def test_the_summary_in_the_middle(self, summary: str) -> None:
        lines = ["> app@1.0.0 test", *chatter(900), summary, *chatter(900, 900)]
        assert summary in shown(lines)


class TestErrors:
    def test_first_and_last_with_the_lines_around(self) -> None:
        lines = chatter(3000)
        lines[1000] = "ERROR could not open the store"
        lines[1500] = "ERROR could not open the store again"
        lines[2000] = "ERROR gave up"
        text = shortened(lines, 6000).text
        assert "\n".join(lines[997:1004]) in text
        assert "\n".join(lines[1997:2004]) in text

    def test_distinct_errors_are_never_merged(self) -> None:
        """Paths and codes tell one from the other, although they read alike."""
        errors = [f"src/part_{name}.c:3:4: error: unknown type" for name in "abcdefgh"]
        errors += [f"error E0{code}: mismatch" for code in (308, 425, 432)]
        lines = chatter(1000)
        for at, error in enumerate(errors):
            lines.insert(90 * (at + 1), error)
        result = shown(lines, 4000)
        assert [line for line in result if "error" in line] == errors

    def test_at_most_five_warnings_that_read_alike_are_wished_for(self) -> None:
        lines = chatter(500)
        lines[100:100] = [f"warning: unused variable v{i}" for i in range(100)]
        lines[300] = "warning: the disk is nearly full"
        result = shown(lines, 2500)
        assert "warning: the disk is nearly full" in result

    def test_repeats_are_folded_with_their_number(self) -> None:
        lines = [*chatter(300), *["waiting for the lock of the store"] * 200, *chatter(300, 300)]
        lines[200] = "ERROR no lock"
        text = shortened(lines).text
        assert "waiting for the lock of the store\n… (repeated 200 times)\n" in text
        assert text.count("waiting for the lock") == 1


class TestAssertions:
    @pytest.mark.parametrize(
        "said",
        [
            [">       assert total(cart) == 9", "E       assert 6 == 9", "E        +  where 6 = x"],
            ["  ● cart › has a total", "    Expected: 9", "    Received: 6"],
            ["assertion `left == right` failed", "  left: 6", " right: 9"],
            ["    cart_test.go:14: total: got 6, want 9"],
        ],
    )
    def test_what_a_test_expected_and_what_it_got(self, said: list[str]) -> None:
        lines = [*chatter(700), *said, *chatter(700, 700), "make: *** [Makefile:3: test] Error 1"]
        result = shown(lines)
        assert [line for line in result if line in said] == said


class TestTerminal:
    def test_colours_and_progress(self) -> None:
        bar = "\r".join(f"fetching {i:3d}% [{'#' * (i // 10):10}]" for i in range(0, 101, 5))
        lines = ["> app@1.0.0 build", bar, *(f"\x1b[32m✓\x1b[0m part {i}" for i in range(400))]
        result = shortened([*lines, "\x1b[31merror: it broke\x1b[0m", "done"])
        assert "\x1b" not in result.text
        assert result.text.split("\n")[0].startswith("[kvagent: ")
        assert "terminal codes removed" in result.text.split("\n")[0]
        assert "fetching 100%" in result.text
        assert "fetching  50%" not in result.text
        assert "error: it broke" in result.text.split("\n")


PYTHON = [
    "Traceback (most recent call last):",
    '  File "/app/store.py", line 12, in open_store',
    "    return connect(path)",
    '  File "/usr/lib/python3.11/site-packages/db/connect.py", line 99, in connect',
    "    raise NoFile(path)",
    "db.errors.NoFile: /data/store.sqlite",
    "",
    "The above exception was the direct cause of the following exception:",
    "",
    "Traceback (most recent call last):",
    '  File "/app/main.py", line 3, in <module>',
    "    main()",
    *(
        line
        for i in range(60)
        for line in (
            f'  File "/usr/lib/python3.11/site-packages/web/layer_{i}.py", line {i}, in call',
            "    return self.app(scope)",
        )
    ),
    '  File "/app/views.py", line 41, in show',
    "    store = open_store(path)",
    "RuntimeError: cannot show the page",
]


class TestTraces:
    def test_a_blank_line_does_not_end_a_chained_traceback(self) -> None:
        result = shown([*chatter(400), *PYTHON, *chatter(400, 400)], 2500)
        assert "db.errors.NoFile: /data/store.sqlite" in result
        assert "RuntimeError: cannot show the page" in result

    def test_where_it_was_raised_and_the_programs_own_frames(self) -> None:
        result = shown([*chatter(400), *PYTHON, *chatter(400, 400)], 3500)
        for frame in ("/app/store.py", "/app/main.py", "/app/views.py"):
            assert any(frame in line for line in result)
        assert '  File "/app/views.py", line 41, in show' in result
        assert "    store = open_store(path)" in result
        assert sum("site-packages" in line for line in result) < 8

    def test_gaps_say_which_lines_are_missing(self) -> None:
        lines = [*chatter(400), *PYTHON]
        gaps = re.findall(r"^\[… (\d+)(?:-(\d+))?\]$", shortened(lines, 2500).text, re.MULTILINE)
        assert gaps
        assert all(1 <= int(first) <= int(last or first) <= len(lines) for first, last in gaps)

    def test_java(self) -> None:
        trace = [
            'Exception in thread "main" java.lang.IllegalStateException: pool is closed',
            *(f"\tat org.springframework.web.Layer{i}.call(Layer{i}.java:{i})" for i in range(40)),
            "\tat com.shop.Checkout.pay(Checkout.java:88)",
            "Caused by: java.sql.SQLException: timeout after 30 s",
            *(f"\tat java.base/java.lang.Part{i}.run(Part{i}.java:{i})" for i in range(40)),
            "\t... 23 more",
        ]
        result = shown([*chatter(300), *trace, *chatter(300, 300)], 2500)
        assert trace[0] in result
        assert "Caused by: java.sql.SQLException: timeout after 30 s" in result
        assert "\tat com.shop.Checkout.pay(Checkout.java:88)" in result

    def test_javascript(self) -> None:
        trace = [
            "TypeError: Cannot read properties of undefined (reading 'id')",
            "    at render (/app/src/cart.tsx:14:9)",
            *(f"    at next{i} (/app/node_modules/react/lib/a.js:{i}:1)" for i in range(60)),
            "    at main (/app/src/index.tsx:3:1)",
        ]
        result = shown([*chatter(300), *trace, *chatter(300, 300)], 2500)
        assert trace[0] in result
        assert trace[1] in result
        assert trace[-1] in result

    @pytest.mark.parametrize(
        "end",
        [
            ["Traceback (most recent call last):"],
            ["Traceback (most recent call last):", ""],
            ["  Traceback (most recent call last):", '    File "a.py", line 1, in f'],
            ["    at f (a.js:1:2)"],
        ],
    )
    def test_a_trace_that_is_cut_off(self, end: list[str]) -> None:
        for lines in ([*chatter(50), *end], [*end, *chatter(50)]):
            shortened(lines, 1000)


def test_it_is_asked_before_the_generic_one() -> None:
    text = "\n".join([*chatter(500), *PYTHON])
    assert shorten(text, 3000) == log.shorten(text, 3000)
