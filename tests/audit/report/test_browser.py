"""Does the page do in a real browser what it promises: sort, fold, fit a phone, stay at home?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvagent.audit.report.html import write
from kvagent.audit.session import Report, Session
from kvagent.audit.turns import Totals
from tests.audit.conftest import audited
from tests.audit.report.browser import Browser, program, started
from tests.audit.report.reports import everything, finding, row, session
from tests.audit.report.test_html import HOSTILE, hostile, huge

pytest.importorskip("jinja2", reason="jinja2 is not installed (kvagent[audit])")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = program()
    if path is None:
        pytest.skip("no Chromium: install it, or set KVAGENT_CHROMIUM to its path")
    with started(path) as one:
        yield one


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def put(page: Path, report: Report) -> Path:
    page.write_text(write(report), encoding="utf-8")
    return page


def check_quiet(browser: Browser, page: Path) -> None:
    """Nothing was complained about, and nothing but the page itself was asked for."""
    assert browser.messages == []
    assert [each for each in browser.requests if each != page.as_uri()] in ([], ["data:,"])
    # The policy let the page's own style and script through.
    assert (
        browser.evaluate("getComputedStyle(document.querySelector('table')).borderSpacing") == "0px"
    )
    assert browser.evaluate("document.querySelectorAll('#comforts button').length") == 2


def sized() -> Session:
    """Turns whose figures, as texts, have another order than as numbers."""
    tokens = (900, 12_000, 100, 2_500)
    rows = [
        row(
            n,
            prompt_tokens=size,
            exact=n % 2 == 0,
            kv_bytes=size << 15,
            growth=None if n == 1 else 7 - n,
        )
        for n, size in enumerate(tokens, 1)
    ]
    return session(rows=rows, totals=Totals(4, sum(tokens), 0, 0, 12_000))


def column(browser: Browser, name: str) -> list[str]:
    """What stands in a column of the table of turns."""
    found: list[str] = browser.evaluate(
        "(() => { const t = [...document.querySelectorAll('table')].find(t => t.tHead.innerText.includes('growth'));"
        f" const n = [...t.tHead.rows[0].cells].findIndex(c => c.innerText.includes('{name}'));"
        " t.tHead.rows[0].cells[n].id = 'wanted';"
        " return [...t.tBodies[0].rows].map(r => r.cells[n].innerText); })()"
    )
    return found


@pytest.mark.parametrize(
    ("name", "falling"),
    [
        ("prompt", ["12,000", "2,500", "≈900", "≈100"]),
        ("KV cache", ["375 MiB", "78.1 MiB", "≈28.1 MiB", "≈3.12 MiB"]),
        # What has no figure comes last.
        ("growth", ["+5", "≈+4", "+3", "–"]),
        ("turn", ["4", "3", "2", "1"]),
    ],
)
def test_a_click_sorts_by_value_and_another_one_turns_it(
    browser: Browser, page: Path, name: str, falling: list[str]
) -> None:
    browser.open(put(page, Report([sized()])))
    column(browser, name)
    browser.click("#wanted button")
    assert column(browser, name) == falling
    assert browser.evaluate("document.querySelector('#wanted').ariaSort") == "descending"
    browser.click("#wanted button")
    assert column(browser, name) == falling[::-1]
    assert browser.evaluate("document.querySelector('#wanted').ariaSort") == "ascending"
    column(browser, "turn")
    assert browser.evaluate("document.querySelectorAll('[aria-sort]').length") == 1
    check_quiet(browser, page)


def test_texts_are_sorted_from_a_to_z(browser: Browser, page: Path) -> None:
    browser.open(
        put(page, Report([session(name) for name in ("b.jsonl", "run 10", "a.jsonl", "run 9")]))
    )
    browser.click("table.sortable th button")
    names = browser.evaluate(
        "[...document.querySelectorAll('table.sortable')[0].tBodies[0].rows].map(r => r.cells[0].innerText)"
    )
    assert names == ["a.jsonl", "b.jsonl", "run 9", "run 10"]


def test_a_finding_folds_and_unfolds(browser: Browser, page: Path) -> None:
    found = [finding(said=f"The clock {n} is wrong.") for n in range(5)]
    browser.open(put(page, Report([session(findings=found)])))
    state = "[...document.querySelectorAll('.finding')].map(f => f.querySelector('.inside').checkVisibility())"
    assert browser.evaluate(state) == [True, True, True, False, False]
    browser.click("#s1-f4 > summary")
    browser.click("#s1-f0 > summary")
    assert browser.evaluate(state) == [False, True, True, False, True]
    everything_open = "[...document.querySelectorAll('details')].every(d => d.open)"
    browser.click("#comforts button")
    assert browser.evaluate(everything_open)
    assert browser.evaluate("document.querySelector('#comforts button').innerText") == "Fold all"
    browser.click("#comforts button")
    assert browser.evaluate("[...document.querySelectorAll('details')].some(d => d.open)") is False
    check_quiet(browser, page)


def test_a_link_unfolds_what_it_leads_to(browser: Browser, page: Path) -> None:
    browser.open(put(page, Report([session(f"{n}.jsonl", findings=[finding()]) for n in range(3)])))
    assert browser.evaluate("document.querySelector('#s3').open") is False
    browser.click("a[href='#s3']")
    browser.until("document.querySelector('#s3').open")


def test_without_scripts_everything_is_there_and_folds(browser: Browser, page: Path) -> None:
    found = [finding(said=f"The clock {n} is wrong.") for n in range(5)]
    browser.script_allowed(allowed=False)
    try:
        browser.open(put(page, Report([session(findings=found)])))
        assert browser.evaluate("document.querySelectorAll('button').length") == 0
        browser.click("#s1-f4 > summary")
        assert browser.evaluate("document.querySelector('#s1-f4 .inside').checkVisibility()")
        assert browser.evaluate("document.querySelectorAll('svg path').length") > 2
    finally:
        browser.script_allowed(allowed=True)


def reports() -> dict[str, Report]:
    return {
        "everything": everything(),
        "nothing": Report([]),
        "one request": Report([session(rows=[row(1)])]),
        "hostile": hostile(" ".join(HOSTILE)),
        "1,900 turns": Report([huge()]),
        "two sessions": Report([huge(), sized()]),
    }


@pytest.mark.parametrize("name", reports())
def test_no_page_is_wider_than_its_window(browser: Browser, page: Path, name: str) -> None:
    put(page, reports()[name])
    for width in (390, 768, 1280):
        browser.open(page, width, 844)
        for unfolded in (False, True):
            if unfolded:
                browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            wide = browser.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} at {width}, unfolded: {unfolded}"
    if name != "nothing":
        check_quiet(browser, page)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_an_element(browser: Browser, page: Path, text: str) -> None:
    browser.open(put(page, hostile(text)))
    check_quiet(browser, page)
    assert browser.evaluate("document.querySelectorAll('script').length") == 1
    assert (
        browser.evaluate("document.querySelectorAll('img, iframe, object, embed, form').length")
        == 0
    )
    assert browser.evaluate(
        "[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !a.name.startsWith('on')))"
    )


_TEXTS = r"""
(() => {
  const number = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const [r, g, b, a = 1] = number(getComputedStyle(each).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.localName === "title") continue;
    const style = getComputedStyle(element);
    const colour = number(element instanceof SVGElement ? style.fill : style.color);
    const [high, low] = [light(colour), light(behind(element))].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), element.outerHTML.slice(0, 80)]);
  }
  return found;
})()
"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_stands_out(browser: Browser, page: Path, dark: bool) -> None:
    """As WCAG AA asks: 4.5 to 1."""
    browser.open(put(page, everything()), dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    found: list[Any] = browser.evaluate(_TEXTS)
    assert len(found) > 100
    assert [each for each in found if each[0] < 4.5] == []


def test_it_is_dark_where_the_system_is_and_a_click_turns_it(browser: Browser, page: Path) -> None:
    put(page, everything())
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for dark in (False, True):
        browser.open(page, dark=dark)
        seen.append(browser.evaluate(colour))
        browser.click("#comforts button:last-child")
        seen.append(browser.evaluate(colour))
    light, turned_dark, dark_one, turned_light = seen
    assert light == turned_light == "rgb(255, 255, 255)"
    assert turned_dark == dark_one != light


def test_printed_findings_are_unfolded_and_the_page_is_light(browser: Browser, page: Path) -> None:
    found = [finding(said=f"The clock {n} is wrong.") for n in range(5)]
    browser.open(put(page, Report([session(findings=found)])), dark=True, media="print")
    state = "[...document.querySelectorAll('.finding .inside')].map(f => f.getBoundingClientRect().height > 50)"
    assert browser.evaluate(state) == [True] * 5
    assert (
        browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert browser.evaluate("document.querySelector('#comforts').checkVisibility()") is False
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 2


@pytest.mark.parametrize(
    "name",
    ["data/claudecode_3fe1b6bc.jsonl", "cases/requests.jsonl", "data/pi_before-compaction.jsonl"],
)
def test_pages_of_recorded_sessions(browser: Browser, page: Path, shared: Path, name: str) -> None:
    put(page, Report([audited(shared / name)]))
    for width, dark in ((390, False), (1280, True)):
        browser.open(page, width, dark=dark)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        check_quiet(browser, page)
        # Each column of each chart is drawn: its paths have a width and a height.
        drawn = browser.evaluate(
            "[...document.querySelectorAll('.chart')].map(c => [...c.querySelectorAll('svg svg path[class]')]"
            ".some(p => p.getBoundingClientRect().width > 20 && p.getBoundingClientRect().height > 20))"
        )
        assert len(drawn) >= 2
        assert all(drawn)


def test_what_would_be_wrong_is_noticed(browser: Browser, page: Path) -> None:
    """The proof that the other tests can fail."""
    page.write_text("<img src='missing.png'><script>console.error('no'); undefined_name()</script>")
    browser.open(page)
    assert any(each.endswith("missing.png") for each in browser.requests)
    assert any("undefined_name" in each for each in browser.messages)
    assert any('"no"' in each for each in browser.messages)
    page.write_text(write(everything()).replace("<main>", "<main onclick='1' style='color:red'>"))
    browser.open(page)
    assert any("Content Security Policy" in each for each in browser.messages)
