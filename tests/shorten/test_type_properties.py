"""What holds for every text of every type, and every budget?"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvagent.shorten import Shortened, code, diff, html, log, markdown, shorten
from kvagent.shorten.marker import is_marked
from kvagent.shorten.result import count_lines

MODULES = {"code": code, "diff": diff, "html": html, "log": log, "markdown": markdown}

LINES = {
    "code": [
        "def handle(self, request):", "class Store(Base):", "    return self.store.load(key)", "",
        "import os.path", "    # TODO: more", "    raise ValueError('no')", "}", "  if (a) {",
        "export const a = () => {", "     7→    value = 1", "     8\tfoo();", "\ud83d = '👩‍👩‍👧'",
    ],
    "diff": [
        "diff --git a/x.py b/x.py", "index 83db48f..bf269f4 100644", "--- a/x.py", "+++ b/x.py",
        "@@ -1,2 +1,3 @@ def f():", "@@ -9 +9 @@", " context_line", "-    old = 1", "+    new = 2",
        "\\ No newline at end of file", "rename from a", "Binary files a and b differ", "", "+", "-",
        "\x1b[32m+green\x1b[m", "+\ud83d👩‍👩‍👧",
    ],
    "html": [
        "<!doctype html>", "<title>T &amp; t</title>", "<p>some text</p>", "<a href='/x'>y</a>", "<td>",
        "<script>no</script>", "<nav>n</nav>", "<table><tr><td>1</td></tr></table>", "<li>item", "<div>",
        "</div>", "</table>", "<pre>a\n b</pre>", "<h2>head</h2>", "<!-- c -->", "&#55357;", "<a <b",
    ],
    "log": [
        "2026-01-02T10:00:00Z INFO started worker=7", "ERROR E0308 in src/a.rs:12", "warning: old",
        "Traceback (most recent call last):", '  File "a.py", line 1, in f', "    return g()",
        "ValueError: no", "    at f (/a/b.js:1:2)", "\tat a.b.C.d(C.java:1)", "Caused by: x.Y: z", "",
        "During handling of the above exception, another exception occurred:", "exit code 2",
        "\x1b[31mred\x1b[0m", "10%\r20%\r30%", "=== 1 failed, 2 passed in 3s ===", "\ud83d👩‍👩‍👧",
    ],
    "markdown": [
        "# Title", "## Section", "### Deep", "Some words. And more of them.", "", "- item", "1. item",
        "| a | b |", "|---|---|", "```", "# comment", "    12→## numbered", "see src/app/main.py:12",
    ],
}  # fmt: skip

types = st.sampled_from(sorted(MODULES))
budgets = st.one_of(st.integers(-1, 200), st.integers(200, 1500))


BEGINNINGS = {
    "code": "import a\nfrom b import c\nclass A:\n    def f(self):\n",
    "diff": "diff --git a/y.py b/y.py\n--- a/y.py\n+++ b/y.py\n@@ -1,60 +1,60 @@\n",
    "html": "<!doctype html><body>\n",
    "log": "2026-01-02T10:00:00Z INFO started\n",
    "markdown": "## One\n### Two\n## Three\n",
}


@st.composite
def texts(draw: st.DrawFn) -> str:
    kind = draw(types)
    other = st.one_of(st.sampled_from(LINES[draw(types)]), st.text(max_size=30))
    line = st.sampled_from(LINES[kind])
    if draw(st.booleans()):
        line = st.one_of(line, line, line, other)
    lines = draw(st.lists(line, max_size=40)) * draw(st.sampled_from([1, 1, 3, 9]))
    begin = draw(st.sampled_from([BEGINNINGS[kind], BEGINNINGS[kind], ""]))
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    return begin.replace("\n", end) + end.join(lines) + draw(st.sampled_from(["", "\n"]))


def results(text: str, budget: int, handle: str | None = None) -> list[Shortened]:
    """What the shortener in charge makes of it, and what each of the others would."""
    given = [shorten(text, budget, handle=handle)]
    for module in MODULES.values():
        result = module.shorten(text, budget, handle=handle)
        if result is not None and len(text) > budget:
            given.append(result)
    return given


@settings(max_examples=300, deadline=None)
@given(texts(), budgets, st.sampled_from([None, "r17ab3c"]))
def test_within_the_budget(text: str, budget: int, handle: str | None) -> None:
    for result in results(text, budget, handle):
        assert len(result.text) <= max(0, min(len(text), budget))


@settings(max_examples=300, deadline=None)
@given(texts(), budgets)
def test_honest_counts(text: str, budget: int) -> None:
    for result in results(text, budget):
        assert result.kept >= 0
        assert result.dropped >= 0
        if "html as text" not in result.text.split("\n")[0] and result.unit == "lines":
            assert result.kept + result.dropped == count_lines(text)
        if result.lossless:
            assert result.dropped == 0


@settings(max_examples=300, deadline=None)
@given(texts(), budgets)
def test_idempotent(text: str, budget: int) -> None:
    for result in results(text, budget, "r1"):
        assert shorten(result.text, budget, handle="r1").text == result.text


@settings(deadline=None)
@given(texts(), st.integers(120, 1500))
def test_every_change_is_announced(text: str, budget: int) -> None:
    for result in results(text, budget, "r1"):
        if result.text != text:
            assert is_marked(result.text)
            assert result.text.split("\n")[0].endswith("kept as r1]")


@settings(deadline=None)
@given(texts(), budgets)
def test_it_can_be_sent(text: str, budget: int) -> None:
    """No code point is torn: what was valid UTF-8 before is so afterwards."""
    valid = text.encode("utf-8", "replace").decode()
    for result in results(valid, budget):
        result.text.encode()


@pytest.mark.parametrize("seeds", [("1", "2")])
def test_the_same_in_other_processes(seeds: tuple[str, ...]) -> None:
    """Sets of strings have another order in each of them."""
    script = (
        "import hashlib\n"
        "from tests.shorten.test_type_properties import LINES\n"
        "from kvagent.shorten import shorten\n"
        "out = ''\n"
        "for lines in LINES.values():\n"
        "    text = '\\n'.join(f'{line} name_{i} of part.{i % 40}.x{i}' for i in range(200)\n"
        "                      for line in lines)\n"
        "    out += shorten(text, 5000, handle='r1').text\n"
        "print(hashlib.sha256(out.encode('utf-8', 'surrogatepass')).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in seeds
    }
    assert len(digests) == 1
    assert len(digests.pop()) == len(hashlib.sha256().hexdigest())
