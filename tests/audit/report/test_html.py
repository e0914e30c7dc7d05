"""Is the page whole, small, the same each time, and closed to what a hostile text would do?"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from array import array
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvagent.audit.report import html
from kvagent.audit.report.html import NoTemplates, write
from kvagent.audit.report.page.visible import visible
from kvagent.audit.rule import Contrast, Spot
from kvagent.audit.session import (
    Break,
    Failed,
    Gate,
    Report,
    Result,
    Session,
    Timeline,
)
from kvagent.audit.transcript import Hashed, Place, Reported, Unreadable
from kvagent.audit.turns import Parts, Totals, Traced
from tests.audit.conftest import audited
from tests.audit.report.markup import Element, parsed
from tests.audit.report.reports import (
    CLOCK,
    DEAD_TOOL,
    REPORTS,
    everything,
    finding,
    row,
    session,
    spot,
)

pytest.importorskip("jinja2", reason="jinja2 is not installed (kvagent[audit])")

_MIB = 1 << 20
_SHOWN = (
    "data/claudecode_3fe1b6bc.jsonl",
    "cases/requests.jsonl",
    "data/pi_before-compaction.jsonl",
)

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</style><style>*{display:none}",
    "</title></pre></svg><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)" x="',
    "' onfocus='alert(1)",
    "<!-- <![CDATA[ ]]> -->",
    "&lt;b&gt; &#60; &amp;amp;",
    "{{ 7 * 7 }} {% raw %} {# #}",
    "javascript:alert(1)",
    "\u202eevil\u202c \u2066x",
    "\x00\x1b[31m\x7f\x9b\r\n\t",
    "\ud800 \udfff \ufffe \U0010ffff",
    "é ü 漢字 🦜 👩\u200d💻 \u200fעברית العربية",
    "a" * 5_000,
]
_TEXTS = st.sampled_from(HOSTILE) | st.text(max_size=40)


def hostile(text: str) -> Report:
    """A report with one text wherever a transcript or its reader can put one."""
    place = Place(text, 3, text)
    made = session(
        text,
        counter=text,
        format_title=text,
        rows=[
            row(1, place=place),
            row(2, place=place, error=text, fault=text, exact=False),
            row(3, place=place, breaks=(Break("message", 1, "message_changed"),)),
        ],
        findings=[
            finding(
                CLOCK,
                spot(2, place=place, field=text, contrast=Contrast(f"x{text}", text, 0)),
                spot(3, place=place, contrast=Contrast(text + "a", text + "b", len(text))),
                said=text,
                fix=text,
                example=text,
            ),
            finding(DEAD_TOOL, Spot(place, 0, 1, excerpt=text), said=text),
        ],
        results=[Result(place, 0, 2, 3, text, 70, 280)],
        timelines={0: Timeline([text, "tool"], array("I", [60, 40]), array("I", [1, 2]))},
        notes=[text],
        unreadable=[Unreadable(place, text)],
        unreadable_count=1,
    )
    traced = session(text, rows=[], totals=Totals(1, 100, 64, 0, 100))
    traced.traced = [Traced(Hashed(place, (1,), 64, 100, conversation=text), 100, 64, "")]
    other = everything().sessions[0]
    assert other.what_if is not None
    return Report([made, traced, other], [Failed(text, text)], [Gate(text, True, text, text)])  # noqa: FBT003


def check_closed(page: str) -> Element:
    """Nothing in the page runs, loads, hides or points outside."""
    root = parsed(page)
    for each in root.all():
        for name, value in each.attributes.items():
            assert not name.startswith("on"), f"{each.tag} {name}"
            assert name not in {"style", "src", "srcset", "action", "formaction"}, name
            if name == "href":
                assert value.startswith("#") or (each.tag, value) == ("link", "data:,")
    (script,) = root.find("script")
    assert script.text == files("kvagent.audit.report.page").joinpath("page.js").read_text()
    (style,) = root.find("style")
    assert style.text == files("kvagent.audit.report.page").joinpath("style.css").read_text()
    assert {each.tag for each in root.all()} <= TAGS
    page.encode()
    # Compared outside of the assertion, which would print both pages.
    shown = page == visible(page)
    assert shown, "a character is hidden"
    return root


# What the page is built of; no text can bring another one.
TAGS = set(
    re.findall(
        r"\w+",
        "a article b body code dd defs details div dl dt figcaption figure footer g h1 h2 h3 head header html "
        "li line link main mark meta nav p path pattern pre rect script section span style summary svg symbol "
        "table tbody td text th thead title tr ul use",
    )
)


def texts_of(root: Element) -> str:
    return " ".join(root.text.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_only_shown(text: str) -> None:
    root = check_closed(write(hostile(text)))
    wanted = " ".join(visible(text).split())
    assert texts_of(root).count(wanted) >= 12
    (title, *_) = root.find("title")
    assert title.text == "kvagent audit: 3 sessions"


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(_TEXTS)
def test_any_text_leaves_the_page_as_it_is_built(text: str) -> None:
    """The same tags in the same order as with a harmless text: nothing of it became markup."""

    def shape(page: str) -> list[str]:
        root = check_closed(page)
        # What differs between two texts is coloured, which depends on the texts.
        for each in root.find("pre"):
            each.content.clear()
        return [each.tag for each in root.all()]

    assert shape(write(hostile(text))) == shape(write(hostile("x" * len(text))))


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(REPORTS)
def test_any_report_becomes_a_page(report: Report) -> None:
    page = write(report)
    check_closed(page)
    same = page == write(report)
    assert same


def test_the_page_names_nothing_outside() -> None:
    page = write(everything())
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", page.replace("// ", ""))


def test_the_policy_allows_only_the_style_and_the_script_by_their_hashes() -> None:
    root = parsed(write(everything()))
    (policy,) = [
        each.attributes["content"]
        for each in root.find("meta")
        if each.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for tag in ("script", "style"):
        (element,) = root.find(tag)
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert allowed[f"{tag}-src"] == f"'sha256-{digest}'"


def test_everything_of_a_report_stands_on_the_page() -> None:
    report = everything()
    text = texts_of(parsed(write(report)))
    full = report.sessions[0]
    assert full.what_if is not None
    for wanted in (
        *(each.said for each in full.findings),
        *(each.fix for each in full.findings if each.fix != "-"),
        *(f"{each.rule.code} {each.rule.name}" for each in full.findings),
        *(f"kvagent explain {each.rule.code}" for each in full.findings),
        *(gate.said for gate in report.gates),
        *(each.why for each in report.failed),
        *(each.why for each in full.unreadable),
        *full.notes,
        full.what_if.left_out,
        "through kvagent",
        "212 tokens of prefill saved",
        "pin_head 2, evict 1",
        "KV cache at most",
        "turn 2 · message 0 · content · character 31",
        "logs/monday run.jsonl:2 .request.messages",
        "message 0: system changed",
        "the template raises: roles must alternate",
        "error: This model's maximum context length is 4096 tokens.",
        "it was not in the cache any more, or another replica served it",
        "512 KiB of KV cache",
        "A trace without texts",
    ):
        assert " ".join(wanted.split()) in text, wanted


def test_a_difference_stands_side_by_side_with_its_character_marked() -> None:
    root = parsed(write(Report([session(findings=[finding()])])))
    (sides,) = root.find("div", "sides")
    assert [each.text for each in sides.find("figcaption")] == ["sent before", "sent now"]
    assert [each.text for each in sides.find("mark")] == ["1", "9"]
    before, after = (each.find("pre")[0].text for each in sides.find("figure"))
    assert (before, after) == ("…It is 12:30:01 now.\nBe", "…It is 12:30:09 now.\nBe")


def test_every_figure_says_whether_it_is_an_estimate() -> None:
    for exact in (True, False):
        rows = [row(1, exact=exact), row(2, exact=exact, wasted_tokens=7)]
        sums = Totals(2, 300, 96, 7, 200, exact=exact)
        made = session(rows=rows, totals=sums, findings=[finding()], exact=exact)
        made.counter = "Qwen2.5" if exact else "estimate: cl100k"
        root = parsed(write(Report([made])))
        (main,) = root.find("main")
        text = texts_of(main)
        if exact:
            assert "≈" not in text
            assert "tokens are exact, counted by Qwen2.5" in text
            continue
        assert "tokens are estimates" in text
        (figures,) = root.find("dl", "figures")
        values = {each.find("dt")[0].text: each.find("b")[0].text for each in figures.find("div")}
        assert values == {
            "Hit rate, predicted": "≈32.0%",
            "Prompt tokens": "≈300",
            "Wasted prefill": "≈7",
            "Longest prompt": "≈200",
            "Findings": "1",
        }
        assert "≈84 tokens prefilled again" in text


def test_estimates_and_exact_counts_of_one_session_are_told_apart() -> None:
    made = session(rows=[row(1, exact=True), row(2, exact=False)], exact=False)
    root = parsed(write(Report([made])))
    (table,) = [each for each in root.find("table") if "growth" in each.text]
    prompts = [each.find("td")[0].text for each in table.find("tbody")[0].find("tr")]
    assert prompts == ["100", "≈200"]


def test_the_worst_session_comes_first_and_is_open() -> None:
    calm, bad = session("calm.jsonl"), session("bad.jsonl", findings=[finding()])
    root = parsed(write(Report([calm, bad])))
    assert [each.find("h2")[0].text for each in root.find("details", "session")] == [
        "bad.jsonl",
        "calm.jsonl",
    ]
    assert ["open" in each.attributes for each in root.find("details", "session")] == [True, False]
    (table,) = [each for each in root.find("table") if "session" in each.find("thead")[0].text]
    assert [each.find("th")[0].text for each in table.find("tbody")[0].find("tr")] == [
        "bad.jsonl",
        "calm.jsonl",
    ]


def test_every_link_leads_to_something() -> None:
    root = parsed(write(everything()))
    ids = [each.attributes["id"] for each in root.all() if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    links = [each.attributes["href"] for each in root.find("a")]
    assert links
    assert {link[1:] for link in links} <= set(ids)


def test_one_fault_in_many_conversations_is_told_once() -> None:
    found = [finding(CLOCK, spot(2, conversation=n, tokens=n)) for n in range(90)]
    root = parsed(write(Report([session(findings=found, conversations=90)])))
    assert len(root.find("details", "finding")) == 1
    assert "90 times in 90 conversations" in texts_of(root)
    assert "89 more findings of the same" in texts_of(root)


@pytest.mark.parametrize("count", [0, 1])
def test_little_is_no_trouble(count: int) -> None:
    rows = [row(1)][:count]
    made = session(rows=rows, totals=Totals(count, 100 * count, 0, 0, 100 * count))
    made.conversations = count
    text = texts_of(check_closed(write(Report([made]))))
    assert ("It holds no request" in text) == (count == 0)
    check_closed(write(Report([])))


def test_a_trace_without_texts_is_shown_in_short() -> None:
    made = session("trace.jsonl", rows=[], exact=False)
    made.conversations = 0
    for number in range(1, 1_000):
        each = Traced(Hashed(Place("trace.jsonl", number), (1,), 512, number), number, 0, "")
        made.traced.append(each)
        made.totals.add(each)
    root = check_closed(write(Report([made])))
    text = texts_of(root)
    assert "blocks of 512 tokens" in text
    assert "≈" not in texts_of(root.find("main")[0])
    assert "the longest of 999" in text
    assert len(root.find("figure", "chart")) == 1


def huge() -> Session:
    """1,900 turns, each with a break, with long names and every column filled."""
    rows = [
        row(
            number,
            place=Place("/a/very/long/path/" * 9 + "log.jsonl", number, "[3].request.messages"),
            prompt_tokens=150_000,
            parts=Parts(9_000, 5_000, 36_000, 100_000),
            wasted_tokens=120_000,
            kv_bytes=9 << 30,
            exact=False,
            reported=Reported(160_000, 12_345, 999),
            error="x" * 10_000,
            breaks=[Break("message", 1, "messages_removed"), Break("tools", 0, "tools_reordered")],
        )
        for number in range(1, 1_901)
    ]
    spots = [spot(turn, place=rows[0].place, contrast=None) for turn in range(2, 52)]
    return session(
        "long " * 50,
        rows=rows,
        totals=Totals(1_900, 285_000_000, 0, 228_000_000, 150_000, exact=False),
        findings=[finding(CLOCK, *spots, said=f"The clock {n} is wrong.") for n in range(500)],
        results=[Result(rows[0].place, 0, 1, 2, "a_tool_" * 30, 9, 9)] * 100,
        timelines={
            0: Timeline(
                ["user", "assistant", "tool"] * 1_300,
                array("I", [40] * 3_900),
                array("I", [1] * 3_900),
            )
        },
        unreadable=[Unreadable(Place("log.jsonl", 1), "is not JSON")] * 20,
        unreadable_count=100_000,
    )


def test_a_very_long_session_stays_small() -> None:
    page = write(Report([huge()]))
    assert len(page.encode()) <= 2 * _MIB
    text = texts_of(parsed(page))
    assert "600 of 1,900 turns have a column" in text
    assert "1,900 turns, 1,200 of them here" in text
    assert "and 99,980 more" in text


def test_very_many_sessions_stay_small() -> None:
    page = write(Report([huge()] * 40))
    assert len(page.encode()) <= 3 * _MIB
    assert "The 12 worst sessions are shown in full" in texts_of(parsed(page))


@pytest.mark.parametrize("name", _SHOWN)
def test_pages_of_recorded_sessions_are_small(shared: Path, name: str) -> None:
    page = write(Report([audited(shared / name)]))
    assert len(page.encode()) <= 2 * _MIB
    check_closed(page)


def test_all_recorded_sessions_become_one_page(recorded: list[Session]) -> None:
    root = check_closed(write(Report(recorded)))
    rows = next(each for each in root.find("table") if "session" in each.find("thead")[0].text)
    assert len(rows.find("tbody")[0].find("tr")) == len(recorded)


def test_the_page_is_the_same_in_another_process(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from kvagent.audit.report.html import write\n"
        "from tests.audit.report.reports import everything\n"
        "sys.stdout.buffer.write(write(everything()).encode())"
    )
    root = Path(__file__).resolve().parents[3]
    pages = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "TZ": zone},
            check=True,
            capture_output=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert pages == {write(everything()).encode()}


def test_without_jinja2_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    html._environment.cache_clear()
    for act in (html.check, lambda: write(everything())):
        with pytest.raises(NoTemplates, match=r'pip install "kvagent\[audit\]"'):
            act()
